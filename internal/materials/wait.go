package materials

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// GET …?wait holds a call until the request has its estimates. Nearly always the process that holds
// the call also takes the event, and wakes it (notify). With several processes, or after a restart, another one may
// have taken it: one query every 200 ms asks for all waiting calls together. A call that waits in vain gets the
// request as it is; nothing hangs on the wait.

const (
	maxWaiters  = 1000                   // calls that wait in one process
	waitLook    = 200 * time.Millisecond // between two queries of the database, for all waiting calls
	longestWait = time.Minute
	waitTimeout = 15 * time.Second // for one query of the database
)

// waiters lets calls wait until their requests leave the state enqueued. A change by this process wakes them at once;
// for the changes of other processes, one query of the database serves all of them.
type waiters struct {
	mu      sync.Mutex
	waiting map[requestKey]*subscription
	places  *httpapi.Shares
	arrived chan struct{} // a call waits
	stop    chan struct{}
	stopped sync.Once
	looking sync.WaitGroup
}

// subscription is shared by all calls that wait for one request.
type subscription struct {
	done chan struct{} // closed when the request is not enqueued any more
	n    int
}

// newWaiters starts the polling, which asks nothing while no call waits; look returns those of the requests that are
// not enqueued any more.
func newWaiters(look func(context.Context, []requestKey) ([]requestKey, error)) *waiters {
	w := &waiters{waiting: make(map[requestKey]*subscription), places: httpapi.NewShares(maxWaiters),
		arrived: make(chan struct{}, 1), stop: make(chan struct{})}
	w.looking.Go(func() { w.run(look) })
	return w
}

// subscribe begins to wait. The caller reads the request afterwards, so that it misses no change, and calls unsubscribe
// in the end. The places are shared as large bodies are. errs.Unavailable: too many wait.
func (w *waiters) subscribe(key requestKey) (done <-chan struct{}, unsubscribe func(), err error) {
	if !w.places.Take(key.SupplierID, 1) {
		return nil, nil, errs.NewUnavailable("Too many calls are waiting; ask without wait.", time.Second, nil)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	c := w.waiting[key]
	if c == nil {
		c = &subscription{done: make(chan struct{})}
		w.waiting[key] = c
	}
	c.n++
	sleep.Wake(w.arrived)
	return c.done, func() { w.unsubscribe(key, c) }, nil
}

// unsubscribe ends a call's wait, however it ended, and frees its place. The last call that waits for a request takes
// it out of what the database is asked about.
func (w *waiters) unsubscribe(key requestKey, c *subscription) {
	w.places.Release(key.SupplierID, 1)
	w.mu.Lock()
	defer w.mu.Unlock()
	if c.n--; c.n == 0 && w.waiting[key] == c {
		delete(w.waiting, key)
	}
}

// notify wakes the calls that wait for one of the requests. It is called after the COMMIT that moved it; they read it
// then.
func (w *waiters) notify(keys ...requestKey) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, key := range keys {
		if c := w.waiting[key]; c != nil {
			close(c.done)
			delete(w.waiting, key)
		}
	}
}

// keys returns the requests that are waited for.
func (w *waiters) keys() []requestKey {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Collect(maps.Keys(w.waiting))
}

// close wakes all calls and ends the polling.
func (w *waiters) close() {
	w.stopped.Do(func() { close(w.stop) })
	w.looking.Wait()
	w.notify(w.keys()...)
}

// run polls the database while a call waits. After a failed query the next one, or the calls' own limits, decide.
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
		if done, err := look(ctx, keys); err == nil {
			w.notify(done...)
		}
		cancel()
	}
}

// await returns once the request is not enqueued any more, or after the given time or when the service stops.
// errs.NotFound: no such request of the supplier; errs.Unavailable: too many wait. It holds no connection of the
// database while it waits, and no record.
func (s *Service) await(ctx context.Context, key requestKey, atMost time.Duration) error {
	done, unsubscribe, err := s.waiters.subscribe(key)
	if err != nil {
		return err
	}
	defer unsubscribe()
	if _, status, err := s.store.round(ctx, key); err != nil || status != Enqueued {
		return err
	}
	timer := time.NewTimer(atMost)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	case <-s.waiters.stop:
	case <-ctx.Done():
	}
	return ctx.Err()
}

// StopWaiting answers all waiting calls, so that a stopping server need not wait for them.
func (s *Service) StopWaiting() { s.waiters.close() }
