package webhooks

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// members is who lives, who died, and who owns which shard.
type members struct {
	live   []int64
	stay   []int64 // those who live and do not stop
	dead   []int64 // their leases ran out, or they hold attempts without one
	owners []int64 // of each shard
}

// members reads the workers, the shards and, one step through an index each, who holds attempts.
func (s *store) members(ctx context.Context, now time.Time) (m members, err error) {
	type row struct{ kind, id, value int64 }
	rows, err := database.Query(ctx, s.db.SQL(ctx), `
		WITH RECURSIVE holder(id) AS (
			SELECT (SELECT worker FROM webhook_deliveries WHERE worker IS NOT NULL ORDER BY worker LIMIT 1)
			UNION ALL
			SELECT (SELECT d.worker FROM webhook_deliveries d WHERE d.worker > holder.id ORDER BY d.worker LIMIT 1)
			FROM holder WHERE holder.id IS NOT NULL)
		SELECT -1, shard, worker FROM webhook_shards
		UNION ALL SELECT 1 - leaving, id, alive_until FROM workers
		UNION ALL SELECT 2, id, 0 FROM holder WHERE id IS NOT NULL`, nil, func(r *row) []any { return []any{&r.kind, &r.id, &r.value} })
	if err != nil {
		return m, fmt.Errorf("read the workers: %w", err)
	}
	slices.SortStableFunc(rows, func(a, b row) int { return cmp.Compare(a.kind, b.kind) })
	m.owners = make([]int64, dispatch.Shards)
	for _, r := range rows {
		switch alive := r.value >= now.UnixMicro(); {
		case r.kind == -1:
			m.owners[r.id] = r.value
		case r.kind < 2 && alive:
			m.live = append(m.live, r.id)
			if r.kind == 1 {
				m.stay = append(m.stay, r.id)
			}
		case !slices.Contains(m.live, r.id) && !slices.Contains(m.dead, r.id):
			m.dead = append(m.dead, r.id)
		}
	}
	return m, nil
}

// leave notes that the worker stops.
func (s *store) leave(ctx context.Context, worker int64) error {
	if _, err := s.db.SQL(ctx).ExecContext(ctx, `UPDATE workers SET leaving = 1 WHERE id = $1`, worker); err != nil {
		return fmt.Errorf("store that the worker stops: %w", database.Translate(err))
	}
	return nil
}

// giveShards makes another worker the owner of shards of this one.
func (s *store) giveShards(ctx context.Context, shards []int, from, to int64) error {
	_, err := s.db.SQL(ctx).ExecContext(ctx, `UPDATE webhook_shards SET worker = $3 WHERE worker = $2 AND `+s.anyOf("shard", 1), s.values(shards), from, to)
	if err != nil {
		return fmt.Errorf("give shards to another worker: %w", database.Translate(err))
	}
	return nil
}

// takeShards makes this worker the owner of those of the shards whose owner does not live.
func (s *store) takeShards(ctx context.Context, shards []int, worker int64, now time.Time) error {
	_, err := s.db.SQL(ctx).ExecContext(ctx, `UPDATE webhook_shards SET worker = $2 WHERE `+s.anyOf("shard", 1)+`
		AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = webhook_shards.worker AND w.alive_until >= $3)`, s.values(shards), worker, now.UnixMicro())
	if err != nil {
		return fmt.Errorf("take shards: %w", database.Translate(err))
	}
	return nil
}

// heldBy counts the attempts that workers have in flight, by supplier.
func (s *store) heldBy(ctx context.Context, workers []int64) (map[string]int, error) {
	type row struct {
		destination string
		n           int
	}
	list, err := database.Query(ctx, s.db.SQL(ctx), `SELECT destination, count(*) FROM webhook_deliveries
		WHERE worker IS NOT NULL AND destination <> 'own' AND `+s.anyOf("worker", 1)+` GROUP BY destination`,
		[]any{s.values(workers)}, func(r *row) []any { return []any{&r.destination, &r.n} })
	if err != nil {
		return nil, fmt.Errorf("count attempts in flight: %w", err)
	}
	held := make(map[string]int, len(list))
	for _, r := range list {
		held[r.destination] = r.n
	}
	return held, nil
}

// begunBefore are the first attempts that the worker began before the given time and that have not ended.
func (s *store) begunBefore(ctx context.Context, worker int64, before time.Time) ([]string, error) {
	list, err := database.Query(ctx, s.db.SQL(ctx), `SELECT id FROM webhook_deliveries WHERE worker = $1 AND attempts = 1 AND last_started_at < $2`,
		[]any{worker, before.UnixMicro()}, func(id *string) []any { return []any{id} })
	if err != nil {
		return nil, fmt.Errorf("read attempts in flight: %w", err)
	}
	return list, nil
}
