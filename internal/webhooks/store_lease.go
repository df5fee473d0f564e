package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

func (s *workerStore) newLease(ctx context.Context, until time.Time) (id int64, err error) {
	err = s.db.InTx(ctx, "register a worker", func(ctx context.Context) error {
		if id, err = s.db.Numbers(ctx, 1); err != nil {
			return err
		}
		return s.db.From(ctx).Exec(`INSERT INTO workers (id, alive_until) VALUES (?, ?)`, id, until.UnixMicro()).Error
	})
	if err != nil {
		return 0, fmt.Errorf("store a worker's lease: %w", err)
	}
	return id, nil
}

// What takeOver is given for a worker's lease instead of a renewal that was read.
const (
	anyRenewal int64 = -1 // it ends whatever it says
	noRenewal  int64 = -2 // it is only taken over from when it has no row
)

// takeOver ends the worker's lease unless it was renewed since the given renewal, makes its attempts due again and
// returns how many they were. The worker finds its lease gone, and each of its results names it.
func (s *workerStore) takeOver(ctx context.Context, worker, renewal int64, now time.Time) (n int64, err error) {
	err = s.db.InTx(ctx, "take over a dead worker's attempts", func(ctx context.Context) error {
		_, err := s.db.SQL(ctx).ExecContext(ctx, `DELETE FROM workers
			WHERE id = $1 AND (alive_until = $2 OR CAST($2 AS bigint) = -1)`, worker, renewal)
		if err != nil {
			return database.Translate(err)
		}
		destinations, err := database.Query(ctx, s.db.SQL(ctx),
			`UPDATE webhook_deliveries SET worker = NULL, next_attempt_at = $1, updated_at = $1
			WHERE worker = $2 AND NOT EXISTS (SELECT 1 FROM workers WHERE id = $2) RETURNING destination`,
			[]any{now.UnixMicro(), worker}, func(d *string) []any { return []any{d} })
		if err != nil {
			return err
		}
		due := map[string]time.Time{}
		for _, destination := range destinations {
			due[destination] = now
		}
		n = int64(len(destinations))
		return (&dueStore{s.tables}).markDue(ctx, due, now)
	})
	if err != nil {
		return 0, fmt.Errorf("take over: %w", err)
	}
	return n, nil
}

// begunAttempt is an attempt that is begun in the database.
type begunAttempt struct {
	id         string
	number, at int64
}

// begun returns the attempts that the worker has begun and that have not ended.
func (s *attemptStore) begun(ctx context.Context, worker int64) ([]begunAttempt, error) {
	list, err := database.Query(ctx, s.db.SQL(ctx),
		`SELECT id, attempts, coalesce(last_started_at, 0) FROM webhook_deliveries WHERE worker = $1`, []any{worker},
		func(a *begunAttempt) []any { return []any{&a.id, &a.number, &a.at} })
	if err != nil {
		return nil, fmt.Errorf("read attempts in flight: %w", err)
	}
	return list, nil
}

// interrupt makes the deliveries of those of the worker's attempts due now that are as they were read, and returns how
// many. The attempts stay on record.
func (s *attemptStore) interrupt(ctx context.Context, worker int64, attempts []begunAttempt,
	now time.Time) (n int, err error) {
	err = s.db.InTx(ctx, "reconcile attempts", func(ctx context.Context) error {
		n = 0
		due := map[string]time.Time{}
		for _, a := range attempts {
			destinations, err := database.Query(ctx, s.db.SQL(ctx), `UPDATE webhook_deliveries
				SET worker = NULL, next_attempt_at = $1, updated_at = $1
				WHERE id = $2 AND worker + 0 = $3 AND attempts = $4 AND coalesce(last_started_at, 0) = $5 RETURNING destination`,
				[]any{now.UnixMicro(), a.id, worker, a.number, a.at}, func(d *string) []any { return []any{d} })
			if err != nil {
				return err
			}
			for _, destination := range destinations {
				due[destination] = now
				n++
			}
		}
		return (&dueStore{s.tables}).markDue(ctx, due, now)
	})
	if err != nil {
		return 0, fmt.Errorf("reconcile attempts: %w", err)
	}
	return n, nil
}
