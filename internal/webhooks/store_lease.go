package webhooks

import (
	"context"
	"fmt"
	"time"
)

func (s *store) newLease(ctx context.Context, until time.Time) (id int64, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context) error {
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

// renewLease reports whether the worker still had its lease.
func (s *store) renewLease(ctx context.Context, worker int64, until time.Time) (held bool, err error) {
	result := s.db.From(ctx).Exec(`UPDATE workers SET alive_until = ? WHERE id = ?`, until.UnixMicro(), worker)
	if result.Error != nil {
		return false, fmt.Errorf("renew a worker's lease: %w", result.Error)
	}
	return result.RowsAffected == 1, nil
}

// deadWorkers are those whose leases ran out, and those that hold attempts without a lease: one step through an index each.
func (s *store) deadWorkers(ctx context.Context, now time.Time) (ids []int64, err error) {
	err = s.db.Reader(ctx).Raw(`WITH RECURSIVE holder(id) AS (
			SELECT (SELECT worker FROM webhook_deliveries WHERE worker IS NOT NULL ORDER BY worker LIMIT 1)
			UNION ALL
			SELECT (SELECT d.worker FROM webhook_deliveries d WHERE d.worker > holder.id ORDER BY d.worker LIMIT 1)
			FROM holder WHERE holder.id IS NOT NULL)
		SELECT id FROM holder WHERE id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = holder.id)
		UNION SELECT id FROM workers WHERE alive_until < ?`, now.UnixMicro()).Scan(&ids).Error
	if err != nil {
		return nil, fmt.Errorf("read dead workers: %w", err)
	}
	return ids, nil
}

// takeOver ends the worker's lease when it ran out before the given time, makes its attempts due again and returns how many they
// were. The worker finds its lease gone, and each of its results names it.
func (s *store) takeOver(ctx context.Context, worker int64, before, now time.Time) (n int64, err error) {
	err = s.db.InTx(ctx, func(ctx context.Context) error {
		if err := s.db.From(ctx).Exec(`DELETE FROM workers WHERE id = ? AND alive_until < ?`, worker, before.UnixMicro()).Error; err != nil {
			return err
		}
		result := s.db.From(ctx).Exec(`UPDATE webhook_deliveries SET worker = NULL, next_attempt_at = ?
			WHERE worker = ? AND NOT EXISTS (SELECT 1 FROM workers WHERE id = ?)`, now.UnixMicro(), worker, worker)
		n = result.RowsAffected
		return result.Error
	})
	if err != nil {
		return 0, fmt.Errorf("take over: %w", err)
	}
	return n, nil
}
