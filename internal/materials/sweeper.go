package materials

import (
	"context"
	"fmt"
	"time"
)

const (
	sweepInterval = time.Second
	sweepBatch    = 500
	sweepAgain    = 10 * time.Second // after so long a second publish counts as lost too
	sweepTimeout  = 15 * time.Second
	sweepAnyway   = time.Minute // how long a busy queue may put a sweep off
)

// RunSweeper publishes again, until ctx ends, what waits for its estimation longer than a publish takes. This, and
// not the publish, is why no accepted request is ever lost: neither by a crash nor by a queue that lost its store.
func (s *Service) RunSweeper(ctx context.Context) error {
	ticker := time.NewTicker(sweepInterval)
	defer ticker.Stop()
	last := time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if time.Since(last) < sweepAnyway && s.deps.Publisher.Busy(ctx) {
			continue // what is late is most likely queued: publishing a whole backlog again every few seconds costs much
		}
		last = time.Now()
		if _, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "sweep failed", "error", err)
		}
	}
}

// Sweep publishes every request that is due for it and tells how many there were.
func (s *Service) Sweep(ctx context.Context) (published int, err error) {
	for ctx.Err() == nil {
		n, err := s.sweepBatch(ctx)
		if published += n; err != nil {
			return published, fmt.Errorf("sweep: %w", err)
		}
		if n < sweepBatch {
			break
		}
	}
	return published, nil
}

func (s *Service) sweepBatch(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	now := s.deps.Now()
	rows, err := s.store.unpublished(ctx, sweepBatch, now, now.Add(sweepAgain))
	if err != nil {
		return 0, err
	}
	for _, row := range rows {
		s.deps.Publisher.Publish(Subject(row.SupplierID, row.ID), row.TraceID)
	}
	return len(rows), nil
}
