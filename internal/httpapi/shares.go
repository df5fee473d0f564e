package httpapi

import (
	"context"
	"slices"
	"sync"
)

// Shares is memory, or places, in equal shares. A caller is granted what leaves at least as much free as it then
// holds: one alone may hold half, n of them an n+1-th each, so that a newcomer always finds a share, however greedy
// the others are.
type Shares struct {
	total int64

	// mu guards what follows, for every connection and request that holds or releases memory.
	mu      sync.Mutex
	free    int64
	held    map[string]int64
	waiting []*waiter // of each caller the oldest first, and callers in turn
}

type waiter struct {
	caller  string
	weight  int64
	granted chan struct{}
}

// NewShares returns shares of so much.
func NewShares(total int64) *Shares {
	return &Shares{total: total, free: total, held: map[string]int64{}}
}

// Take reports whether the caller was granted so much at once.
func (s *Shares) Take(caller string, weight int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.grant(caller, weight)
}

// grant reports whether the caller's share had so much, which it then holds.
func (s *Shares) grant(caller string, weight int64) bool {
	if s.held[caller]+weight > s.free-weight {
		return false
	}
	s.free -= weight
	s.held[caller] += weight
	return true
}

// Wait waits for the caller's turn: first come, first served among its own requests that wait.
func (s *Shares) Wait(ctx context.Context, caller string, weight int64) error {
	w := &waiter{caller: caller, weight: weight, granted: make(chan struct{})}
	s.mu.Lock()
	s.waiting = append(s.waiting, w)
	s.serve()
	s.mu.Unlock()
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		return s.leave(w, ctx.Err())
	}
}

// leave ends a waiting; a grant of the same moment is kept.
func (s *Shares) leave(w *waiter, reason error) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.Index(s.waiting, w)
	if i < 0 {
		return nil
	}
	s.waiting = slices.Delete(s.waiting, i, i+1)
	s.serve()
	return reason
}

// Release takes so much back of what the caller holds.
func (s *Shares) Release(caller string, weight int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.free += weight
	if s.held[caller] -= weight; s.held[caller] == 0 {
		delete(s.held, caller)
	}
	s.serve()
}

// serve grants to those who wait and fit. Who was served goes behind all others: callers who wait take turns.
func (s *Shares) serve() {
	if len(s.waiting) == 0 {
		return
	}
	served, refused := map[string]bool{}, map[string]bool{}
	var first, last []*waiter
	for _, w := range s.waiting {
		switch {
		case !refused[w.caller] && s.grant(w.caller, w.weight):
			served[w.caller] = true
			close(w.granted)
			continue
		case served[w.caller]:
			last = append(last, w)
		default:
			first = append(first, w)
		}
		refused[w.caller] = true
	}
	s.waiting = append(first, last...)
}
