package httpapi

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"
)

// patient ends after a moment: every grant here comes at once.
func patient(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	t.Cleanup(cancel)
	return ctx
}

func TestShares_are_equal_and_a_newcomer_always_finds_one(t *testing.T) {
	t.Parallel()
	const total, body = 1200, 10
	for greedy := 1; greedy <= 20; greedy++ {
		s := NewShares(total)
		for held := true; held; {
			held = false
			for i := range greedy {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				held = s.Wait(ctx, fmt.Sprint("greedy", i), body) == nil && s.held[fmt.Sprint("greedy", i)] > 0 || held
			}
		}
		share := int64(total / (greedy + 1))
		for i := range greedy {
			if got := s.held[fmt.Sprint("greedy", i)]; got < share-body || got > share+body {
				t.Errorf("of %d callers one holds %d, its share is %d", greedy, got, share)
			}
		}
		if err := s.Wait(patient(t), "newcomer", share/2-body); err != nil {
			t.Errorf("among %d greedy callers a newcomer is refused: %v", greedy, err)
		}
	}
}

func TestShares_who_waits_does_not_hold_up_others_and_is_served_in_turn(t *testing.T) {
	t.Parallel()
	s := NewShares(8)
	if err := s.Wait(t.Context(), "greedy", 4); err != nil {
		t.Fatal(err)
	}
	if err := s.Wait(patient(t), "greedy", 1); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("more than half is granted: %v", err)
	}
	var served sync.WaitGroup
	for range 3 {
		served.Go(func() {
			if err := s.Wait(t.Context(), "greedy", 2); err != nil {
				t.Error(err)
				return
			}
			s.Release("greedy", 2)
		})
	}
	if err := s.Wait(patient(t), "other", 2); err != nil {
		t.Fatalf("another caller waits behind the greedy one: %v", err)
	}
	s.Release("other", 2)
	s.Release("greedy", 4)
	served.Wait()
	if s.free != 8 || len(s.held) != 0 || len(s.waiting) != 0 {
		t.Errorf("afterwards %d are free, %v are held, %d wait", s.free, s.held, len(s.waiting))
	}
}

// Where there is room for one at a time, a caller with many requests that wait does not keep another's from its turn.
func TestShares_callers_who_wait_take_turns(t *testing.T) {
	t.Parallel()
	s := NewShares(2)
	if !s.Take("greedy", 1) {
		t.Fatal("nothing is free")
	}
	var waiters sync.WaitGroup
	turns := make(chan string, 6)
	for i, caller := range []string{"greedy", "greedy", "greedy", "greedy", "other", "other"} {
		waiters.Go(func() {
			if err := s.Wait(t.Context(), caller, 1); err == nil {
				turns <- caller
			}
		})
		for waiting := 0; waiting <= i; { // one after the other
			s.mu.Lock()
			waiting = len(s.waiting)
			s.mu.Unlock()
		}
	}
	var order []string
	for holder := "greedy"; len(order) < 6; order = append(order, holder) {
		s.Release(holder, 1)
		holder = <-turns
	}
	if want := []string{"greedy", "other", "greedy", "other", "greedy", "greedy"}; !slices.Equal(order, want) {
		t.Errorf("turns %v, want %v", order, want)
	}
	waiters.Wait()
}
