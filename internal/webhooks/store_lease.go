package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

func (s *store) newLease(ctx context.Context, until time.Time) (id int64, err error) {
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

// takeOver ends the worker's lease when it ran out before the given time, makes its attempts due again and returns how
// many they were. The worker finds its lease gone, and each of its results names it.
func (s *store) takeOver(ctx context.Context, worker int64, before, now time.Time) (n int64, err error) {
	err = s.db.InTx(ctx, "take over a dead worker's attempts", func(ctx context.Context) error {
		_, err := s.db.SQL(ctx).ExecContext(ctx, `DELETE FROM workers WHERE id = $1 AND alive_until < $2`,
			worker, before.UnixMicro())
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
		return s.markDue(ctx, due, now)
	})
	if err != nil {
		return 0, fmt.Errorf("take over: %w", err)
	}
	return n, nil
}
