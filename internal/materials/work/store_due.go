package work

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// A look reads the rounds that are due to some shards, supplier by supplier: each supplier with something due gives its
// oldest rounds, however many wait for others. The statement walks from supplier to supplier in the index by shard,
// supplier and due time, one entry each, all shards side by side. It begins behind the supplier at which the look
// before ended.

// shardLook is what a look asks of a shard.
type shardLook struct {
	Shard int
	After string // a supplier; those behind it are looked at
	Until int64  // Unix microseconds: what is due by then
}

// dueRound is a round that is due. One without a uid says only that the supplier was visited.
type dueRound struct {
	round.Round
	tries int64
}

// places returns where database.Query reads a row to.
func (r *dueRound) places() []any {
	return []any{&r.SupplierID, &r.RequestID, &r.UID, &r.Number, &r.tries}
}

// nextSupplier selects the next supplier of the shard with something due.
const nextSupplier = `(SELECT m.supplier_id FROM material_requests m
	WHERE m.due_at IS NOT NULL AND m.shard = %[1]s.shard
	AND m.supplier_id > %[1]s.after ORDER BY m.supplier_id LIMIT 1)`

// dueToShards returns the statement, given the table of the looks, the limit of the walk within it, and how the rounds
// of a supplier are joined.
func dueToShards(looks, limit, rounds string) string {
	return `WITH RECURSIVE walk(shard, until, after) AS (
		SELECT asked.shard, asked.until, ` + fmt.Sprintf(nextSupplier, `asked`) + ` FROM ` + looks + ` AS asked
		UNION ALL SELECT walk.shard, walk.until, ` + fmt.Sprintf(nextSupplier, `walk`) + `
			FROM walk WHERE walk.after IS NOT NULL` + limit + `)
	SELECT due.after, coalesce(m.id, 0), coalesce(m.uid, 0), coalesce(m.round, 0), coalesce(m.tries, 0)
	FROM (SELECT * FROM walk WHERE after IS NOT NULL LIMIT $2) AS due LEFT JOIN ` + rounds + ` LIMIT $4`
}

// oldest is the condition on the rounds of one supplier in a look.
const oldest = `due_at IS NOT NULL AND shard = due.shard AND supplier_id = due.after
	AND due_at <= due.until ORDER BY due_at LIMIT $3`

// due returns the oldest rounds, at most each of a supplier and most in all, that are due to at most so many suppliers,
// shard by shard in the order of the walk.
func (s *store) due(ctx context.Context, looks []shardLook, suppliers, each, most int) ([]dueRound, error) {
	read := func(statement string, args ...any) ([]dueRound, error) {
		rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), statement, args, (*dueRound).places)
		return rows, errs.Doing("look for estimations that are due", err)
	}
	if s.db.Engine() == database.SQLite {
		return read(dueToShards(
			`(SELECT value->>'Shard' AS shard, value->>'Until' AS until, value->>'After' AS after FROM json_each($1))`,
			fmt.Sprintf(` LIMIT $2 + %d`, round.Shards), // each shard's walk ends with a row without a supplier
			`material_requests m ON m.uid > 0
				AND `+s.db.Chosen("m.uid", `SELECT uid FROM material_requests WHERE `+oldest)),
			s.db.Values(looks), suppliers, each, most)
	}
	shards, after, until := make([]int64, len(looks)), make([]string, len(looks)), make([]int64, len(looks))
	for i, l := range looks {
		shards[i], after[i], until[i] = int64(l.Shard), l.After, l.Until
	}
	if s.db.Spread() {
		return read(dueSpread, shards, after, each, most, until)
	}
	return read(dueToShards(
		`(SELECT * FROM unnest($1::bigint[], $5::text[], $6::bigint[]) AS l(shard, after, until))`, ``,
		`LATERAL (SELECT id, uid, round, tries FROM material_requests WHERE `+oldest+`) AS m ON true`),
		shards, suppliers, each, most, after, until)
}

// dueSpread is the statement where the suppliers are on several servers, of which no statement walks all: it takes them
// from all that is due, from the index alone, and each one's oldest rounds from its own server.
const dueSpread = `SELECT due.after, m.id, m.uid, m.round, m.tries
	FROM (SELECT DISTINCT r.shard, r.supplier_id AS after, asked.until
		FROM unnest($1::bigint[], $2::text[], $5::bigint[]) AS asked(shard, after, until) JOIN material_requests r
			ON r.shard = asked.shard AND r.supplier_id > asked.after AND r.due_at <= asked.until) AS due
	JOIN LATERAL (SELECT id, uid, round, tries, due_at FROM material_requests WHERE ` + oldest + `) AS m ON true
	ORDER BY due.shard, due.after, m.due_at LIMIT $4`

// SetBack follows a clock that was set back. It may be repeated.
func (s *Service) SetBack(ctx context.Context) error {
	return s.store.db.InTx(database.ForMaintenance(ctx), "follow a clock that was set back",
		func(ctx context.Context) error { return s.store.setBack(ctx, s.deps.Now()) })
}

// setBack makes estimations that became due or were put off in what is now the future wait from now on, as long as they
// were to wait.
func (s *store) setBack(ctx context.Context, now time.Time) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE material_requests SET due_at = $1 + due_at - updated_at,
		updated_at = $1 WHERE uid > 0 AND `+s.db.Free("material_requests", "uid",
		`due_at IS NOT NULL AND due_at > $1 AND updated_at > $2`),
		now.UnixMicro(), now.Add(database.ClockApart).UnixMicro())
	return errs.Doing("have estimations wait from now on", err)
}
