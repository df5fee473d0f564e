package materials

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

const intakeColumns = `(supplier_id, id, status, digest, shop_code, body, trace_id, sweep_at, created_at, updated_at)`

// insert stores those requests whose keys are free, in one statement, and tells which. Keys are distinct and in order.
func (s *store) insert(ctx context.Context, items []intakeItem, now time.Time) (map[requestKey]bool, error) {
	rows := intakeSQLite
	if s.db.Engine() == database.Postgres {
		rows = intakePostgres
	}
	statement, args := rows(items, now)
	inserted, err := s.writtenKeys(ctx, statement+` ON CONFLICT (supplier_id, id) DO NOTHING RETURNING supplier_id, id`, args)
	if err != nil {
		return nil, fmt.Errorf("insert material requests: %w", err)
	}
	return inserted, nil
}

// intakePostgres passes the batch as arrays: one prepared statement for every size.
func intakePostgres(items []intakeItem, now time.Time) (statement string, args []any) {
	n := len(items)
	suppliers, ids, digests := make([]string, n), make([]int64, n), make([][]byte, n)
	shops, bodies, traces := make([]string, n), make([]string, n), make([]string, n)
	for i, item := range items {
		suppliers[i], ids[i], digests[i] = item.SupplierID, item.ID, item.digest
		shops[i], bodies[i], traces[i] = item.shopCode, item.body, item.traceID
	}
	return `INSERT INTO material_requests ` + intakeColumns + `
		SELECT s, i, 'enqueued', d, c, b, t, $7, $8, $8
		FROM unnest($1::text[], $2::bigint[], $3::bytea[], $4::text[], $5::text[], $6::text[]) AS batch(s, i, d, c, b, t)`,
		[]any{suppliers, ids, digests, shops, bodies, traces, now.Add(firstSweep).UnixMicro(), now.UnixMicro()}
}

func intakeSQLite(items []intakeItem, now time.Time) (statement string, args []any) {
	const row = `(?, ?, 'enqueued', ?, ?, ?, ?, ?, ?, ?)`
	for _, item := range items {
		args = append(args, item.SupplierID, item.ID, item.digest, item.shopCode, item.body, item.traceID,
			now.Add(firstSweep).UnixMicro(), now.UnixMicro(), now.UnixMicro())
	}
	return `INSERT INTO material_requests ` + intakeColumns + ` VALUES ` + row + strings.Repeat(`, `+row, len(items)-1), args
}

// addDigests puts the digests of the stored requests into known. Reading the writer sees what was just committed.
func (s *store) addDigests(ctx context.Context, keys []requestKey, known map[requestKey][]byte) error {
	if len(keys) == 0 {
		return nil
	}
	from, args, err := s.requests(keys, `supplier_id, id, digest`, false)
	if err != nil {
		return err
	}
	rows, err := database.Query(ctx, s.db.SQL(ctx), `SELECT r.supplier_id, r.id, r.digest FROM `+from, args, func(r *requestRow) []any {
		return []any{&r.SupplierID, &r.ID, &r.Digest}
	})
	if err != nil {
		return fmt.Errorf("read requests' digests: %w", err)
	}
	for _, row := range rows {
		known[requestKey{row.SupplierID, row.ID}] = row.Digest
	}
	return nil
}

// unpublished holds at most limit requests that are due to be published again, until the transaction ends; two sweepers
// hold different ones.
func (s *store) unpublished(ctx context.Context, limit int, now time.Time) ([]requestRow, error) {
	skip := s.db.RowLock(` FOR UPDATE SKIP LOCKED`)
	var rows []requestRow
	err := s.db.From(ctx).Raw(`SELECT supplier_id, id, status, round, trace_id FROM material_requests
		WHERE sweep_at <= ? ORDER BY sweep_at LIMIT ?`+skip, now.UnixMicro(), limit).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read unpublished requests: %w", err)
	}
	return rows, nil
}

// sweepAgain says when the requests are published again; nil: never.
func (s *store) sweepAgain(ctx context.Context, rows []requestRow, at *int64) error {
	if len(rows) == 0 {
		return nil
	}
	keys := make([][]any, len(rows))
	for i, row := range rows {
		keys[i] = []any{row.SupplierID, row.ID}
	}
	err := s.db.From(ctx).Exec(`UPDATE material_requests SET sweep_at = ? WHERE (supplier_id, id) IN ?`, at, keys).Error
	if err != nil {
		return fmt.Errorf("put off unpublished requests: %w", err)
	}
	return nil
}

// nextRound enqueues an estimated or failed request again, as a new round; moved is false in any other state.
func (s *store) nextRound(ctx context.Context, key requestKey, now, sweep time.Time) (moved bool, err error) {
	_, moved, err = s.moveOne(ctx, `UPDATE material_requests SET status = 'enqueued', round = round + 1,
		failure = '', sweep_at = ?, updated_at = ? WHERE supplier_id = ? AND id = ? AND status IN ('estimated', 'failed')`,
		sweep.UnixMicro(), now.UnixMicro(), key.SupplierID, key.ID)
	return moved, err
}

// left are those of the requests that are not enqueued any more.
func (s *store) left(ctx context.Context, keys []requestKey) ([]requestKey, error) {
	from, args, err := s.requests(keys, `supplier_id, id, status`, false)
	if err != nil {
		return nil, err
	}
	moved, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT r.supplier_id, r.id FROM `+from+` WHERE r.status <> 'enqueued'`, args, (*requestKey).place)
	if err != nil {
		return nil, fmt.Errorf("read requests waited for: %w", err)
	}
	return moved, nil
}
