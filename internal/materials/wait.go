package materials

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
)

const (
	maxWaiters  = 1000                   // callers that wait in one process
	waitLook    = 200 * time.Millisecond // between two looks at the database, for all waiters together
	longestWait = time.Minute
	waitTimeout = 15 * time.Second // for one query of the database
)

// waiters lets callers wait until their requests leave the state enqueued. What this process changes wakes them at
// once; for what other processes change, one look at the database serves all of them together.
type waiters struct {
	mu      sync.Mutex
	waiting map[requestKey]*crowd
	n       int
	arrived chan struct{} // somebody waits
	stop    chan struct{}
	stopped sync.Once
	looking sync.WaitGroup
}

// crowd waits for one request.
type crowd struct {
	left chan struct{} // closed when the request is not enqueued any more
	n    int
}

func newWaiters(look func(context.Context, []requestKey) ([]requestKey, error)) *waiters {
	w := &waiters{waiting: make(map[requestKey]*crowd), arrived: make(chan struct{}, 1), stop: make(chan struct{})}
	w.looking.Go(func() { w.run(look) })
	return w
}

// join begins to wait. Whoever joins looks at the request afterwards, so that no change falls between the two, and
// calls leave in the end. errs.Unavailable: too many wait.
func (w *waiters) join(key requestKey) (left <-chan struct{}, leave func(), err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.n >= maxWaiters {
		return nil, nil, errs.Away("Too many calls are waiting; ask without wait.", time.Second, nil)
	}
	c := w.waiting[key]
	if c == nil {
		c = &crowd{left: make(chan struct{})}
		w.waiting[key] = c
	}
	c.n++
	w.n++
	select {
	case w.arrived <- struct{}{}:
	default:
	}
	return c.left, func() { w.leave(key, c) }, nil
}

func (w *waiters) leave(key requestKey, c *crowd) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.n--
	if c.n--; c.n == 0 && w.waiting[key] == c {
		delete(w.waiting, key)
	}
}

// tell wakes everybody who waits for one of the requests.
func (w *waiters) tell(keys ...requestKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if c := w.waiting[key]; c != nil {
			close(c.left)
			delete(w.waiting, key)
		}
	}
}

func (w *waiters) keys() []requestKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.waiting))
}

// close wakes everybody and ends the looking.
func (w *waiters) close() {
	w.stopped.Do(func() { close(w.stop) })
	w.looking.Wait()
	w.tell(w.keys()...)
}

// run looks at the database while somebody waits. A failed look is left to the next one and to the waiters' own ends.
func (w *waiters) run(look func(context.Context, []requestKey) ([]requestKey, error)) {
	ticker := time.NewTicker(waitLook)
	defer ticker.Stop()
	for {
		keys := w.keys()
		turn := ticker.C
		if len(keys) == 0 {
			turn = nil
		}
		select {
		case <-w.stop:
			return
		case <-w.arrived:
			continue
		case <-turn:
		}
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		if left, err := look(ctx, keys); err == nil {
			w.tell(left...)
		}
		cancel()
	}
}

// await is the request once it is not enqueued any more, or as it is after the given time or when the service stops.
// errs.NotFound: no such request of the supplier; errs.Unavailable: too many wait.
func (s *Service) await(ctx context.Context, key requestKey, atMost time.Duration) (Record, error) {
	left, leave, err := s.waiters.join(key)
	if err != nil {
		return Record{}, err
	}
	defer leave()
	record, err := s.store.find(ctx, key.SupplierID, key.ID)
	if err != nil || record.Status != Enqueued {
		return record, err
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-left:
	case <-timer.C:
	case <-s.waiters.stop:
	case <-ctx.Done():
		return Record{}, ctx.Err()
	}
	return s.store.find(ctx, key.SupplierID, key.ID)
}

// StopWaiting answers everybody who waits, so that a stopping server need not wait for them.
func (s *Service) StopWaiting() { s.waiters.close() }
