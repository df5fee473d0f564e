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
		taken, late, err := s.sweepBatch(ctx)
		if published += late; err != nil {
			return published, fmt.Errorf("sweep: %w", err)
		}
		if taken < sweepBatch {
			break
		}
	}
	return published, nil
}

// sweepBatch tells how many requests were due and how many of them it published.
func (s *Service) sweepBatch(ctx context.Context) (taken, published int, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	var late []requestRow
	err = s.deps.DB.InTx(ctx, func(ctx context.Context) error {
		now := s.deps.Now()
		rows, err := s.store.unpublished(ctx, sweepBatch, now)
		if taken = len(rows); err != nil || taken == 0 {
			return err
		}
		var sent []requestRow
		if late, sent, err = s.split(ctx, rows); err != nil {
			return err
		}
		if err := s.store.sweepAgain(ctx, sent, nil); err != nil {
			return err
		}
		again := now.Add(sweepAgain).UnixMicro()
		return s.store.sweepAgain(ctx, late, &again)
	})
	if err != nil {
		return 0, 0, err
	}
	for _, row := range late {
		s.deps.Publisher.Publish(Subject(row.SupplierID, row.ID), row.TraceID)
	}
	return taken, len(late), nil
}

// split tells the requests that wait for their estimation from those whose events are stored: these are on their way.
func (s *Service) split(ctx context.Context, rows []requestRow) (late, sent []requestRow, err error) {
	keys := make([]string, len(rows))
	for i, row := range rows {
		keys[i] = requestKey{row.SupplierID, row.ID}.event(row.Round)
	}
	stored, err := s.deps.Outbox.Stored(ctx, keys)
	if err != nil {
		return nil, nil, err
	}
	for i, row := range rows {
		if stored[keys[i]] || row.Status != Enqueued {
			sent = append(sent, row)
		} else {
			late = append(late, row)
		}
	}
	return late, sent, nil
}
