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
	sweepAnyway   = 5 * time.Minute // how long work that is stuck at the head of the queue may hide what was lost behind it
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
		until := s.deps.Now()
		if oldest, queued := s.deps.Publisher.Oldest(ctx); queued && oldest.Before(until) && time.Since(last) < sweepAnyway {
			until = oldest // the queue is first in, first out: what was published later is most likely in it
		} else {
			last = time.Now()
		}
		if _, err := s.Sweep(ctx, until); err != nil && ctx.Err() == nil {
			s.deps.Log.WarnContext(ctx, "sweep failed", "error", err)
		}
	}
}

// Sweep publishes every request that was due for it at the given moment and tells how many there were.
func (s *Service) Sweep(ctx context.Context, until time.Time) (published int, err error) {
	for ctx.Err() == nil {
		taken, late, err := s.sweepBatch(ctx, until)
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
func (s *Service) sweepBatch(ctx context.Context, until time.Time) (taken, published int, err error) {
	ctx, cancel := context.WithTimeout(ctx, sweepTimeout)
	defer cancel()
	var late []requestRow
	err = s.deps.DB.InTx(ctx, func(ctx context.Context) error {
		rows, err := s.store.unpublished(ctx, sweepBatch, until)
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
		again := s.deps.Now().Add(sweepAgain).UnixMicro()
		return s.store.sweepAgain(ctx, late, &again)
	})
	if err != nil {
		return 0, 0, err
	}
	for _, row := range late {
		s.publish(requestKey{row.SupplierID, row.ID})
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
