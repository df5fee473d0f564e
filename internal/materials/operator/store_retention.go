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

// over are the statuses of which requests are deleted.
var over = []materials.Status{materials.Estimated, materials.Selected, materials.Failed}

// isOld chooses, with its parameters, the requests that are deleted.
const isOld = `created_at < ? AND updated_at < ? AND uid >= ? AND uid < ?`

func (p pruning) args() []any {
	return []any{p.made.UnixMicro(), p.changed.UnixMicro(), p.of.First, p.of.End}
}

// oldest returns the supplier's oldest such requests behind one, and the last of them.
func (s *store) oldest(ctx context.Context, supplier string, after place, what pruning, limit int) (
	rounds []round.Round, last place, err error) {
	var args []any
	oldest := database.Arms(over, func(status materials.Status) string {
		args = append(args, supplier, status, after.at, after.at, after.id)
		args = append(append(args, what.args()...), limit)
		return `SELECT supplier_id, id AS request_id, uid, round AS number, created_at FROM material_requests
			WHERE supplier_id = ? AND status = ? AND ` + byAge + ` AND created_at >= ? AND (created_at, id) > (?, ?) AND ` +
			isOld + ` ORDER BY created_at, id LIMIT ?`
	})
	var rows []struct {
		round.Round
		CreatedAt int64
	}
	err = s.db.From(ctx).Raw(oldest+` ORDER BY created_at, request_id LIMIT ?`, append(args, limit)...).Scan(&rows).Error
	for _, row := range rows {
		rounds, last = append(rounds, row.Round), place{at: row.CreatedAt, id: row.RequestID}
	}
	return rounds, last, err
}

// lockOld holds those of the supplier's requests that are still to be deleted until the transaction ends, and returns
// them: against a selection, a re-estimate, another replica.
func (s *store) lockOld(ctx context.Context, supplier string, rounds []round.Round, what pruning) (
	[]round.Round, error) {
	ids, found := make([]int64, len(rounds)), make(map[int64]round.Round, len(rounds))
	for i, r := range rounds {
		ids[i], found[r.UID] = r.RequestID, r
	}
	uids, err := database.Query(ctx, s.db.SQL(ctx), `SELECT uid FROM material_requests
		WHERE supplier_id = $1 AND `+s.db.AnyOf("id", 2)+` AND created_at < $3 AND updated_at < $4 AND uid >= $5
			AND uid < $6 AND status <> 'enqueued' ORDER BY id`+s.db.RowLock(` FOR UPDATE`),
		append([]any{supplier, s.db.Values(ids)}, what.args()...), func(uid *int64) []any { return []any{uid} })
	old := make([]round.Round, 0, len(uids))
	for _, uid := range uids {
		if r, known := found[uid]; known {
			old = append(old, r)
		}
	}
	return old, err
}

// holds reports whether a request of the supplier is of the partition and was changed since then or is enqueued.
func (s *store) holds(ctx context.Context, supplier string, p round.Partition, since time.Time) (is bool, err error) {
	var args []any
	found := database.Arms(materials.Statuses[:], func(status materials.Status) string {
		args = append(args, supplier, status, madeBefore(p).UnixMicro(), p.First, p.End, since.UnixMicro())
		return `SELECT 1 FROM material_requests WHERE supplier_id = ? AND status = ? AND ` + byAge + ` AND created_at < ?
			AND uid >= ? AND uid < ? AND (updated_at >= ? OR status = 'enqueued')`
	})
	// without a statement timeout, if ctx says so
	err = s.db.InTx(ctx, "look for old work", func(ctx context.Context) error {
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
