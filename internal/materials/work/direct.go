package work

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// The last resort, when messages do not reach workers at all: NATS is away, or its consumer is broken in a way that
// nothing reports. An idle worker looks once a second at the work that comes first in the database. When three looks
// find the same, no worker takes it, and this one does, by the tickets, as the sweeper would. It ends as soon as a
// message comes. Several workers may do so at once: each takes rows that the others have not locked.

const (
	directInterval = time.Second
	directLooks    = 3           // that find the same work waiting: no worker takes it
	directSaid     = time.Minute // so long it is said, and how often it is logged
)

// ErrUndelivered says that work waited in the database that the queue gave to no worker.
var ErrUndelivered = errors.New("work waits that the queue delivers to no worker: it is taken from the database")

// RunDirect estimates, until ctx ends, what waits in the database while this worker has nothing to do, whatever the
// queue says about it: the database alone says what is due. Work that moves is left to the queue. The estimates of a
// round that several workers take are stored once.
func (s *Service) RunDirect(ctx context.Context, idle func() bool) error {
	ticker := time.NewTicker(directInterval)
	defer ticker.Stop()
	var view directView
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if !idle() {
			view = directView{}
			s.undelivered.clear()
			continue
		}
		if err := s.workDirectly(ctx, &view, idle); err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "work without the queue failed", "error", err)
		}
	}
}

// Undelivered returns ErrUndelivered when work was taken from the database within the last minute, and the queue has
// delivered nothing since.
func (s *Service) Undelivered() error { return s.undelivered.reason(time.Now()) }

// workDirectly looks for work that does not move, and estimates it, the oldest first.
func (s *Service) workDirectly(ctx context.Context, view *directView, idle func() bool) error {
	below, err := s.stuck(ctx, view)
	if err != nil || below == 0 {
		return err
	}
	if s.undelivered.set(time.Now()) {
		s.deps.Log.WarnContext(ctx, ErrUndelivered.Error())
	}
	for n := workBatch; n == workBatch && ctx.Err() == nil; {
		if n, err = s.workLost(ctx, below); err != nil {
			return err
		}
		if !idle() {
			*view = directView{}
			return nil
		}
	}
	return nil
}

// stuck returns the ticket below which all is to be taken; 0: nothing is.
func (s *Service) stuck(ctx context.Context, view *directView) (below int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	first, err := s.store.firstWaiting(ctx, s.deps.Now())
	if err != nil {
		return 0, err
	}
	var last int64
	if first != (headOfWork{}) {
		if last, err = s.deps.DB.LastNumber(ctx); err != nil {
			return 0, err
		}
	}
	return view.observe(first, last), nil
}

// directView is what an idle worker has seen, at its looks in a row, of the work in the database.
type directView struct {
	first  headOfWork // at the look before
	last   int64      // the greatest number given out then
	looks  int        // that found the same first
	taking bool       // work is being taken until nothing is left that waited at the look before
}

// headOfWork is the work that comes first: its ticket, or when it was to be tried again. Zero: none waits.
type headOfWork struct{ ticket, retryAt int64 }

// observe returns the ticket below which all is to be taken; 0: nothing is. A ticket that was given out since the look
// before may be on its way.
func (v *directView) observe(first headOfWork, last int64) (below int64) {
	before := v.last
	v.last = last
	if first != v.first {
		v.first, v.looks = first, 0
	}
	v.looks++
	if first == (headOfWork{}) || first.ticket > before {
		v.taking = false
		return 0
	}
	v.taking = v.taking || v.looks >= directLooks
	if !v.taking {
		return 0
	}
	return before + 1
}

// undelivered is when work was taken that the queue had not delivered.
type undelivered struct {
	mu        sync.Mutex
	at, noted time.Time
}

// set reports whether it is to be logged.
func (u *undelivered) set(now time.Time) (note bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	note = now.Sub(u.noted) >= directSaid
	if note {
		u.noted = now
	}
	u.at = now
	return note
}

// clear forgets it: the queue delivers.
func (u *undelivered) clear() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.at = time.Time{}
}

// reason returns ErrUndelivered for a minute after work was taken; then nil.
func (u *undelivered) reason(now time.Time) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if now.Sub(u.at) >= directSaid {
		return nil
	}
	return ErrUndelivered
}

// workLost estimates a batch of what Sweep would publish. The new tickets keep other workers from taking the same.
func (s *Service) workLost(ctx context.Context, below int64) (n int, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	var lost []materials.Queued
	err = s.deps.DB.InTx(ctx, "work without the queue", func(ctx context.Context) error {
		lost, err = s.store.requeue(ctx, below, s.deps.Now(), workBatch)
		return err
	})
	if err != nil || len(lost) == 0 {
		return 0, err
	}
	rounds := make([]round.Round, len(lost))
	for i, q := range lost {
		rounds[i] = q.Round
	}
	if _, err = s.worker.Do(ctx, rounds); err != nil {
		return 0, fmt.Errorf("estimate material requests: %w", err)
	}
	return len(lost), nil
}
