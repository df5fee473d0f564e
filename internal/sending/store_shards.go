package sending

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// members is who lives, who died, who owns which shard, and what that means to the worker that asked.
type members struct {
	worker int64 // that asked
	held   bool  // the worker had its lease, which is renewed
	due    bool  // something waits for it
	live   []int64
	stay   []int64 // those who live and do not stop
	dead   []int64 // they stopped renewing their leases
	// of the dead, what their rows said: one that renews its lease after all is not taken over from
	renewals map[int64]int64
	owners   []int64 // of each shard
}

// memberRow is a row of a beat. Its kind says which of the other columns mean something: of shards the owners, of a
// worker that is staying or leaving its id and the end of its lease, of what is due the time. The row renewed is there
// when the worker still had its lease.
type memberRow struct {
	kind      string
	id, value int64
	owners    string // of all shards in their order, between commas
}

// beat renews the worker's lease and reads the workers, the shards and whether something is due in these: an idle
// worker asks nothing else. On SQLite these are two statements, and another beat of this worker may come between them:
// that its row is there says that it has its lease, whatever the row says.
func (s *workerStore) beat(ctx context.Context, worker int64, until time.Time, shards []int,
	now time.Time) ([]memberRow, error) {
	with, renewed, owners := `WITH quick AS (SELECT set_config('synchronous_commit', 'off', true)),
		renewed AS (UPDATE workers SET alive_until = $2 WHERE id = $1 RETURNING id)`,
		`renewed, quick`, `string_agg(worker::text, ',' ORDER BY shard)`
	if !s.Postgres() {
		with, renewed, owners = ``, `workers WHERE id = $1`, `group_concat(worker ORDER BY shard)`
		if _, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE workers SET alive_until = $1 WHERE id = $2`, until.UnixMicro(),
			worker); err != nil {
			return nil, fmt.Errorf("renew a worker's lease: %w", err)
		}
	}
	rows, err := database.Query(ctx, s.DB.SQL(ctx), with+`
		SELECT 'shards', 0, 0, `+owners+` FROM webhook_shards
		UNION ALL SELECT CASE leaving WHEN 0 THEN 'staying' ELSE 'leaving' END, id, alive_until, '' FROM workers
		UNION ALL SELECT 'renewed', id, 0, '' FROM `+renewed+`
		UNION ALL SELECT 'due', 0, at, '' FROM (SELECT next_attempt_at AS at FROM webhook_deliveries
			WHERE status = 'pending' AND worker IS NULL AND destination = 'own' ORDER BY next_attempt_at LIMIT 1) AS own
		UNION ALL SELECT 'due', 0, at, '' FROM (SELECT due_at AS at FROM webhook_receivers
			WHERE due_at IS NOT NULL AND paused_by = '' AND due_at <= $3 AND `+s.DB.AnyOf("shard", 4)+` LIMIT 1) AS receiver`,
		[]any{worker, until.UnixMicro(), now.UnixMicro(), s.DB.Values(shards)},
		func(r *memberRow) []any { return []any{&r.kind, &r.id, &r.value, &r.owners} })
	return rows, errs.Doing("renew the lease and read the workers", err)
}

// newMembers reads the rows of a beat. Who is dead is decided here, by the renewals that this worker has seen, and
// not in the statement: no clock of another machine is part of it.
func newMembers(rows []memberRow, worker int64, now time.Time, seen sightings) (m members, err error) {
	read := time.Now()
	m.worker, m.renewals = worker, map[int64]int64{}
	for _, r := range rows {
		switch r.kind {
		case "shards":
			for id := range strings.SplitSeq(r.owners, ",") {
				owner, err := strconv.ParseInt(id, 10, 64)
				if err != nil {
					return m, fmt.Errorf("read the owners of shards: %w", err)
				}
				m.owners = append(m.owners, owner)
			}
		case "leaving", "staying":
			m.add(r, r.id != worker && seen.dead(r.id, r.value, read))
		case "renewed":
			m.held = true
		case "due":
			m.due = m.due || r.value <= now.UnixMicro()
		}
	}
	return m, nil
}

// add notes a worker. One that stops still lives: its attempts are its own, and it gives its shards away.
func (m *members) add(r memberRow, dead bool) {
	if dead {
		m.dead = append(m.dead, r.id)
		m.renewals[r.id] = r.value
		return
	}
	m.live = append(m.live, r.id)
	if r.kind == "staying" {
		m.stay = append(m.stay, r.id)
	}
}

// leave notes that the worker stops. The others see it at their next beat and no longer count it when they share the
// shards out; the worker itself gives its own away at the same beat.
func (s *workerStore) leave(ctx context.Context, worker int64) error {
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE workers SET leaving = 1 WHERE id = $1`, worker)
	return errs.Doing("store that the worker stops", err)
}

// giveShards makes another worker the owner of shards of this one. It names the giver: a shard that was taken over
// meanwhile, since this worker's lease ran out, stays where it is. A taker that died since is found dead by all.
func (s *workerStore) giveShards(ctx context.Context, shards []int, from, to int64) error {
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_shards SET worker = $3 WHERE worker = $2 AND `+
		s.DB.AnyOf("shard", 1), s.DB.Values(shards), from, to)
	return errs.Doing("give shards to another worker", err)
}

// takeShards makes this worker the owner of those of the shards whose owner has no lease. takeOver has deleted it
// before: an owner that only seemed dead and renewed its lease in between keeps its shards.
func (s *workerStore) takeShards(ctx context.Context, shards []int, worker int64) error {
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_shards SET worker = $2 WHERE `+s.DB.AnyOf("shard", 1)+`
		AND NOT EXISTS (SELECT 1 FROM workers w WHERE w.id = webhook_shards.worker)`, s.DB.Values(shards), worker)
	return errs.Doing("take shards", err)
}
