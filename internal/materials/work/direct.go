package work

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// directInterval is how often a worker looks whether the queue delivers, and how long what was accepted meanwhile
// settles.
const directInterval = time.Second

// RunDirect estimates, until ctx ends, what is to be queued while the queue delivers nothing to this worker: a NATS
// cluster that lost its leader has none for up to nine seconds. What several workers, or the queue once it is back, do
// twice is stored once.
func (s *Service) RunDirect(ctx context.Context, delivers func(context.Context) bool) error {
	ticker := time.NewTicker(directInterval)
	defer ticker.Stop()
	var last int64 // the greatest number at the look before; 0 while the queue delivers
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if delivers(ctx) {
			last = 0
			continue
		}
		next, err := s.workDirectly(ctx, last)
		if err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "work without the queue failed", "error", err)
			continue
		}
		if last == 0 {
			s.deps.Log.InfoContext(ctx, "the queue delivers nothing: work is taken from the database until it does")
		}
		last = next
	}
}

// workDirectly estimates all that has a ticket up to the given one, the oldest first, and returns the greatest there is
// now.
func (s *Service) workDirectly(ctx context.Context, last int64) (next int64, err error) {
	if next, err = s.deps.DB.LastNumber(ctx); err != nil || last == 0 {
		return next, err
	}
	for n := workBatch; n == workBatch && ctx.Err() == nil; {
		if n, err = s.workLost(ctx, last+1); err != nil {
			return 0, err
		}
	}
	return next, nil
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
