package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// The attempts that workers hold. An attempt that is begun is its worker's by the column worker alone. Two look for
// those that are not being made (f): each worker every 2 s for its own that it does not have in memory, which a COMMIT
// without an answer leaves behind, and all workers for those of workers without a lease. Neither needs the other, or
// any message.

// HeldAttempt is an attempt that is begun in the database, as it was read: Interrupt changes it only if it is still so.
type HeldAttempt struct {
	ID         string
	Number, At int64
}

// Begun returns the attempts that the worker began and that have not ended. The worker compares them with its memory.
func (s *AttemptStore) Begun(ctx context.Context, worker int64) ([]HeldAttempt, error) {
	list, err := database.Query(ctx, s.DB.SQL(ctx),
		`SELECT id, attempts, coalesce(last_started_at, 0) FROM webhook_deliveries WHERE worker = $1`, []any{worker},
		func(a *HeldAttempt) []any { return []any{&a.ID, &a.Number, &a.At} })
	return list, errs.Doing("read attempts in flight", err)
}

// Interrupt ends those of the worker's attempts that are as they were read, and returns their number. Their deliveries
// are due now, and the attempts stay on record.
//
// It is f by the holder itself. The condition includes the number and the beginning: it leaves alone an attempt whose
// result was written since, or whose delivery was begun once more. A crash before the COMMIT changes nothing; the
// worker's lease runs out and another one does the same.
func (s *AttemptStore) Interrupt(ctx context.Context, worker int64, attempts []HeldAttempt,
	now time.Time) (n int, err error) {
	err = s.DB.InTx(ctx, "reconcile attempts", func(ctx context.Context) error {
		due := []string{}
		for _, a := range attempts {
			destinations, err := database.Column[string](ctx, s.DB.SQL(ctx), `UPDATE webhook_deliveries
				SET worker = NULL, next_attempt_at = $1, updated_at = $1
				WHERE id = $2 AND worker + 0 = $3 AND attempts = $4 AND coalesce(last_started_at, 0) = $5 RETURNING destination`,
				now.UnixMicro(), a.ID, worker, a.Number, a.At)
			if err != nil {
				return err
			}
			due = append(due, destinations...)
		}
		n = len(due)
		return (&DueStore{s.Tables}).DueNow(ctx, due, now)
	})
	if err != nil {
		return 0, fmt.Errorf("reconcile attempts: %w", err)
	}
	return n, nil
}

// Holders returns who holds attempts, found by one step through an index each: it costs the workers, not the attempts.
func (s *AttemptStore) Holders(ctx context.Context) ([]int64, error) {
	query := `
		WITH RECURSIVE holder(id) AS (
			SELECT (SELECT worker FROM webhook_deliveries WHERE worker IS NOT NULL ORDER BY worker LIMIT 1)
			UNION ALL
			SELECT (SELECT d.worker FROM webhook_deliveries d WHERE d.worker > holder.id ORDER BY d.worker LIMIT 1)
			FROM holder WHERE holder.id IS NOT NULL)
		SELECT id FROM holder WHERE id IS NOT NULL`
	if s.DB.Spread() {
		query = holdersSpread
	}
	list, err := database.Column[int64](ctx, s.DB.SQL(ctx), query)
	return list, errs.Doing("read who holds attempts", err)
}

// HeldBy counts the attempts that workers have in flight, by supplier. A worker that got their shards counts them
// against its own limits until they have ended, so that a receiver never has more calls at once than it may.
func (s *AttemptStore) HeldBy(ctx context.Context, workers []int64) (map[string]int, error) {
	held, err := database.Pairs[string, int](ctx, s.DB.SQL(ctx), `SELECT destination, count(*) FROM webhook_deliveries
		WHERE worker IS NOT NULL AND destination <> 'own' AND `+s.DB.AnyOf("worker", 1)+` GROUP BY destination`,
		s.DB.Values(workers))
	return held, errs.Doing("count attempts in flight", err)
}
