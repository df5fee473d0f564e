package webhooks

import (
	"sync"
	"time"
)

// unheard is how long attempts that were handed over count when the worker that took them says nothing: it died, or
// gave them back itself.
const unheard = 2 * time.Second

// That reportBatch of a worker's attempts have ended is reported at once, fewer after a while: each message costs
// both of them, and none of its windows is so small.
const (
	reportBatch = 8
	reportDelay = 30 * time.Millisecond
)

// flow counts the attempts that this worker handed over to others and that have not ended: what is handed over faster
// than it can be sent would wait in the other one's memory, and then in the database.
type flow struct {
	mu    sync.Mutex
	out   map[int64]*window
	room  chan struct{} // closed when some of them ended; nil when nothing waits for it
	ended map[int64]int // of other workers' attempts, not reported yet
	since time.Time     // of the oldest of these
}

type window struct {
	open  int
	heard time.Time
}

// handed counts attempts that go to a worker.
func (f *flow) handed(worker int64, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	w := f.out[worker]
	if w == nil {
		w = &window{}
		f.out[worker] = w
	}
	if w.open == 0 {
		w.heard = time.Now()
	}
	w.open += n
}

// release counts attempts of the other worker as ended.
func (f *flow) release(worker int64, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if w := f.out[worker]; w != nil {
		w.open, w.heard = max(w.open-n, 0), time.Now()
	}
	if f.room != nil {
		close(f.room)
		f.room = nil
	}
}

// wait waits until no other worker has as many of this one's attempts as the limit says, for the given time at most.
func (f *flow) wait(limit int, most time.Duration) {
	timer := time.NewTimer(most)
	defer timer.Stop()
	for {
		room := f.full(limit)
		if room == nil {
			return
		}
		select {
		case <-room:
		case <-timer.C:
			return
		}
	}
}

func (f *flow) full(limit int) <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	for worker, w := range f.out {
		if w.open == 0 || time.Since(w.heard) > unheard {
			delete(f.out, worker)
			continue
		}
		if w.open >= limit {
			if f.room == nil {
				f.room = make(chan struct{})
			}
			return f.room
		}
	}
	return nil
}

// over notes that an attempt of another worker's has ended here.
func (f *flow) over(origin int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ended) == 0 {
		f.since = time.Now()
	}
	f.ended[origin]++
}

// takeEnded returns what is to be reported to the other workers: some attempts, or what ended a while ago.
func (f *flow) takeEnded() map[int64]int {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := map[int64]int{}
	late := time.Since(f.since) > reportDelay
	for origin, n := range f.ended {
		if late || n >= reportBatch {
			due[origin] = n
			delete(f.ended, origin)
		}
	}
	return due
}
