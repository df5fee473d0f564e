package webhook

import (
	"context"
	"sync"
)

// Claim is what a Store knows of a webhook-id that has just come in.
type Claim int

// The answers of Store.Claim.
const (
	Claimed Claim = iota // new, or its handling failed before: the caller handles it now
	Handled              // handled before
	Busy                 // another call with this id is being handled now
)

// Store remembers which calls were handled, so that one that comes twice takes effect once. Its methods are called
// concurrently. A persistent one should let claims that are neither finished nor released expire after some minutes,
// since a process may die while it handles a call, and keep finished ids for as long as deliveries are repeated or
// redelivered: some weeks.
type Store interface {
	// Claim marks id as being handled unless it was handled or is being handled. It must decide atomically.
	Claim(ctx context.Context, id string) (Claim, error)
	// Finish marks a claimed id as handled.
	Finish(ctx context.Context, id string) error
	// Release gives a claimed id back: handling it failed.
	Release(ctx context.Context, id string) error
}

// DefaultRemembered is how many handled ids a Handler's own MemoryStore keeps: about 3 MiB.
const DefaultRemembered = 20_000

// MemoryStore is a Store in the memory of one process, forgotten when the process ends. Make it with NewMemoryStore.
type MemoryStore struct {
	mu      sync.Mutex
	most    int
	claims  map[string]bool // true once handled
	handled []string        // ids in the order in which they were handled
}

// NewMemoryStore returns a store that keeps the ids of the last most handled calls, at least one.
func NewMemoryStore(most int) *MemoryStore {
	return &MemoryStore{most: max(1, most), claims: map[string]bool{}}
}

// Claim implements Store.
func (s *MemoryStore) Claim(_ context.Context, id string) (Claim, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch handled, known := s.claims[id]; {
	case handled:
		return Handled, nil
	case known:
		return Busy, nil
	default:
		s.claims[id] = false
		return Claimed, nil
	}
}

// Finish implements Store.
func (s *MemoryStore) Finish(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.claims[id] {
		return nil
	}
	s.claims[id] = true
	if s.handled = append(s.handled, id); len(s.handled) > s.most {
		delete(s.claims, s.handled[0])
		s.handled = s.handled[1:]
	}
	return nil
}

// Release implements Store.
func (s *MemoryStore) Release(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.claims[id] {
		delete(s.claims, id)
	}
	return nil
}
