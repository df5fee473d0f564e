package webhooks

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// unheard is how long attempts that were handed over count when the worker that took them says nothing: it died, or
// gave them back itself.
const unheard = 2 * time.Second

// fullFor is how long no more attempts for a supplier with a backlog are handed over after too many were.
const fullFor = 250 * time.Millisecond

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
	room  chan struct{}        // closed when some of them ended; nil when nothing waits for it
	over  map[string]time.Time // suppliers of whose attempts too many were handed over, and when that was heard
	ended map[int64]ended      // of other workers' attempts, not reported yet
	since time.Time            // of the oldest of these
}

// ended is what became of attempts that a worker handed over.
type ended struct {
	n    int
	full []string // suppliers for whose attempts there was no room
}

type window struct {
	open  int
	heard time.Time
}

func newFlow() *flow {
	return &flow{out: map[int64]*window{}, over: map[string]time.Time{}, ended: map[int64]ended{}}
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

// mayJoin reports whether one more attempt for a supplier with a backlog may be handed to a worker: the others' must
// find room there too, and one that is given back costs a write.
func (f *flow) mayJoin(worker int64, supplierID string, limit int) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if at, known := f.over[supplierID]; known && time.Since(at) < fullFor {
		return false
	}
	w := f.out[worker]
	return w == nil || w.open < limit
}

// refuse notes that too many attempts for the suppliers were handed over.
func (f *flow) refuse(suppliers []string) {
	if len(suppliers) == 0 {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	maps.DeleteFunc(f.over, func(_ string, at time.Time) bool { return time.Since(at) >= fullFor })
	for _, id := range suppliers {
		f.over[id] = time.Now()
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

// finished notes that an attempt of another worker's has ended here.
func (f *flow) finished(origin int64) {
	f.note(origin, func(e *ended) { e.n++ })
}

// refused notes that there was no room for an attempt of another worker's; finished counts it.
func (f *flow) refused(origin int64, supplierID string) {
	f.note(origin, func(e *ended) {
		if !slices.Contains(e.full, supplierID) {
			e.full = append(e.full, supplierID)
		}
	})
}

func (f *flow) note(origin int64, change func(*ended)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.ended) == 0 {
		f.since = time.Now()
	}
	e := f.ended[origin]
	change(&e)
	f.ended[origin] = e
}

// takeEnded returns what is to be reported to the other workers: some attempts, or what ended a while ago.
func (f *flow) takeEnded() map[int64]ended {
	f.mu.Lock()
	defer f.mu.Unlock()
	due := map[int64]ended{}
	late := time.Since(f.since) > reportDelay
	for origin, e := range f.ended {
		if late || e.n >= reportBatch {
			due[origin] = e
			delete(f.ended, origin)
		}
	}
	return due
}
