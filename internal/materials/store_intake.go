package materials

import (
	"context"
	"database/sql"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/round"
)

const intakeColumns = `supplier_id, id, status, digest, shop_code, body, trace_id, trace_parent, uid, shard,
	due_at, created_at, updated_at`

const intakeConflict = ` ON CONFLICT (supplier_id, id) DO NOTHING RETURNING supplier_id, id, uid`

// insert stores those requests whose keys are free, in one statement, and returns their uids. Keys are distinct and in
// order: two batches with the same keys wait for each other instead of deadlocking. On PostgreSQL the statement is its
// own transaction. uids that a conflict leaves unused are never given out again; nothing counts on them being without
// gaps.
func (s *store) insert(ctx context.Context, items []intakeItem, now time.Time) (map[requestKey]int64, error) {
	rows, err := database.Either(s.db.Dialect, s.insertPostgres, s.insertSQLite)(ctx, items, now)
	uids := lists.Pairs(rows, func(row insertedRow) (requestKey, int64) { return row.requestKey, row.uid })
	return uids, errs.Doing("insert material requests", err)
}

// insertedRow is a request that was inserted, with the uid that it was given.
type insertedRow struct {
	requestKey
	uid int64
}

// scanTargets returns where database.Query reads a row to.
func (r *insertedRow) scanTargets() []any { return []any{&r.SupplierID, &r.ID, &r.uid} }

// insertPostgres passes the batch as arrays: one prepared statement for every size.
func (s *store) insertPostgres(ctx context.Context, items []intakeItem, now time.Time) ([]insertedRow, error) {
	n := len(items)
	suppliers, ids, digests := make([]string, n), make([]int64, n), make([][]byte, n)
	shops, bodies, traces, parents := make([]string, n), make([][]byte, n), make([]string, n), make([]string, n)
	shards := make([]int64, n)
	for i, item := range items {
		suppliers[i], ids[i], digests[i] = item.SupplierID, item.ID, item.digest
		shops[i], bodies[i], traces[i], parents[i] = item.shopCode, item.body, item.traceID, item.traceParent
		shards[i] = int64(round.ShardOf(item.SupplierID))
	}
	return database.Query(ctx, s.db.SQL(ctx), `
			INSERT INTO material_requests (`+intakeColumns+`)
			SELECT s, i, 'enqueued', d, c, b, t, nullif(p, ''), uid, h, $9, $9, $9
			FROM (SELECT *, nextval('request_numbers') AS uid
				FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::bytea[], $6::text[], $7::text[],
					$8::bigint[]) AS batch(s, i, d, c, b, t, p, h)) AS numbered`+
		intakeConflict,
		[]any{suppliers, ids, digests, shops, bodies, traces, parents, shards, now.UnixMicro()}, (*insertedRow).scanTargets)
}

// insertSQLite numbers and inserts the batch in one transaction, as SQLite has no sequence.
func (s *store) insertSQLite(ctx context.Context, items []intakeItem, now time.Time) (rows []insertedRow, err error) {
	err = s.db.InTx(ctx, "accept requests", func(ctx context.Context) error {
		uid, err := s.db.Numbers(ctx, len(items))
		if err != nil {
			return err
		}
		var args []any
		for i, item := range items {
			args = append(args, item.SupplierID, item.ID, string(Enqueued), item.digest, item.shopCode, item.body, item.traceID,
				sql.NullString{String: item.traceParent, Valid: item.traceParent != ""}, uid+int64(i),
				round.ShardOf(item.SupplierID), now.UnixMicro(), now.UnixMicro(), now.UnixMicro())
		}
		rows, err = database.Query(ctx, s.db.SQL(ctx), `INSERT INTO material_requests (`+intakeColumns+`) VALUES `+
			database.Places(len(items), len(args)/len(items))+intakeConflict, args, (*insertedRow).scanTargets)
		return err
	})
	return rows, err
}

// addDigests puts the digests of the stored requests into known. Reading the writer sees what was just committed. A
// request that retention deleted in between has none: its caller is answered a conflict, and finds the id free when it
// asks again.
func (s *store) addDigests(ctx context.Context, keys []requestKey, known map[requestKey][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	rows, err := queryRequests(ctx, s, s.db.SQL(ctx), keys, `supplier_id, id, digest`, false,
		`SELECT r.supplier_id, r.id, r.digest FROM %s`,
		func(r *requestRow) []any { return []any{&r.SupplierID, &r.ID, &r.Digest} })
	for _, row := range rows {
		known[requestKey{row.SupplierID, row.ID}] = row.Digest
	}
	return errs.Doing("read requests' digests", err)
}

// left returns those of the requests that are not enqueued any more.
func (s *store) left(ctx context.Context, keys []requestKey) ([]requestKey, error) {
	moved, err := queryRequests(ctx, s, s.db.ReaderSQL(ctx), keys, `supplier_id, id, status`, false,
		`SELECT r.supplier_id, r.id FROM %s WHERE r.status <> 'enqueued'`, (*requestKey).place)
	return moved, errs.Doing("read requests waited for", err)
}
