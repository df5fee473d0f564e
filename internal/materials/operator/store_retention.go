package operator

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// suppliers returns those with requests, found by one step through the index each.
func (s *store) suppliers(ctx context.Context) (ids []string, err error) {
	query := `WITH RECURSIVE known(id) AS (
			SELECT (SELECT supplier_id FROM material_requests ORDER BY supplier_id LIMIT 1)
			UNION ALL
			SELECT (SELECT r.supplier_id FROM material_requests r WHERE r.supplier_id > known.id ORDER BY r.supplier_id LIMIT 1)
			FROM known WHERE known.id IS NOT NULL)
		SELECT id FROM known WHERE id IS NOT NULL`
	if s.db.Spread() {
		query = suppliersSpread
	}
	err = s.db.Reader(ctx).Raw(query).Scan(&ids).Error
	return ids, database.Translate(err)
}

// oldest holds the supplier's oldest requests made since then or later, until the transaction ends, and returns the
// round that each is in, and when the last of them was made.
func (s *store) oldest(ctx context.Context, supplier string, since int64, what pruning, limit int) (
	rounds []round.Round, last int64, err error) {
	const old = `created_at >= ? AND created_at < ? AND updated_at < ? AND uid >= ? AND uid < ?`
	span := []any{since, what.made.UnixMicro(), what.changed.UnixMicro(), what.of.First, what.of.End}
	var args []any
	over := []materials.Status{materials.Estimated, materials.Selected, materials.Failed}
	oldest := database.Arms(over, func(status materials.Status) string {
		args = append(append(append(args, supplier, status), span...), limit)
		return `SELECT created_at, id FROM material_requests WHERE supplier_id = ? AND status = ? AND ` + byAge +
			` AND ` + old + ` ORDER BY created_at, id LIMIT ?`
	})
	var rows []struct {
		SupplierID            string
		ID                    int64
		UID, Round, CreatedAt int64
	}
	// The lock is against a selection, a re-estimate, another replica.
	err = s.db.From(ctx).Raw(`SELECT supplier_id, id, uid, round, created_at FROM material_requests
		WHERE id IN (SELECT id FROM (`+oldest+` ORDER BY created_at, id LIMIT ?) AS oldest) AND supplier_id = ? AND `+old+`
			AND status <> 'enqueued' ORDER BY id`+s.db.RowLock(` FOR UPDATE`),
		append(append(args, limit, supplier), span...)...).Scan(&rows).Error
	for _, row := range rows {
		rounds, last = append(rounds, round.Round{SupplierID: row.SupplierID, RequestID: row.ID, UID: row.UID,
			Number: row.Round}), max(last, row.CreatedAt)
	}
	return rounds, last, err
}

// holds reports whether a request of the supplier is of the partition and was changed since then or is enqueued.
func (s *store) holds(ctx context.Context, supplier string, p round.Partition, since time.Time) (is bool, err error) {
	var args []any
	found := database.Arms(materials.Statuses[:], func(status materials.Status) string {
		args = append(args, supplier, status, madeBefore(p).UnixMicro(), p.First, p.End, since.UnixMicro())
		return `SELECT 1 FROM material_requests WHERE supplier_id = ? AND status = ? AND ` + byAge + ` AND created_at < ?
			AND uid >= ? AND uid < ? AND (updated_at >= ? OR status = 'enqueued')`
	})
	err = s.db.InTx(ctx, "look for old work", func(ctx context.Context) error { // without a statement timeout, if ctx says so
		return s.db.From(ctx).Raw(`SELECT EXISTS (`+found+`)`, args...).Scan(&is).Error
	})
	return is, err
}

// prune deletes the requests, of one supplier, with the rounds that are over. A list of parameters in the place of the
// array would be planned, once it is planned for all, as a walk through all requests of the supplier.
func (s *store) prune(ctx context.Context, requests []round.Round) error {
	ids, uids := make([]int64, len(requests)), make([]int64, len(requests))
	for i, r := range requests {
		ids[i], uids[i] = r.RequestID, r.UID
	}
	_, err := s.db.SQL(ctx).ExecContext(ctx, `DELETE FROM material_rounds WHERE `+s.db.AnyOf("uid", 1), s.db.Values(uids))
	if err != nil {
		return database.Translate(err)
	}
	_, err = s.db.SQL(ctx).ExecContext(ctx, `DELETE FROM material_requests WHERE supplier_id = $1
		AND `+s.db.AnyOf("id", 2), requests[0].SupplierID, s.db.Values(ids))
	return database.Translate(err)
}
