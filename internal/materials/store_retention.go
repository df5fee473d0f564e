package materials

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// suppliers are those with requests, found by one step through the index each.
func (s *store) suppliers(ctx context.Context) (ids []string, err error) {
	err = s.db.Reader(ctx).Raw(`WITH RECURSIVE known(id) AS (
			SELECT (SELECT supplier_id FROM material_requests ORDER BY supplier_id LIMIT 1)
			UNION ALL
			SELECT (SELECT r.supplier_id FROM material_requests r WHERE r.supplier_id > known.id ORDER BY r.supplier_id LIMIT 1)
			FROM known WHERE known.id IS NOT NULL)
		SELECT id FROM known WHERE id IS NOT NULL`).Scan(&ids).Error
	return ids, database.Translate(err)
}

// prune deletes the supplier's oldest requests.
func (s *store) prune(ctx context.Context, supplier string, before time.Time, limit int) (int, error) {
	lock := s.db.RowLock(` FOR UPDATE`) // against a selection, a re-estimate, another replica
	var ids []int64
	err := s.db.From(ctx).Raw(`SELECT id FROM material_requests WHERE supplier_id = ? AND `+byAge+` AND created_at < ? AND updated_at < ? AND status <> 'enqueued'
		ORDER BY created_at, id LIMIT ?`+lock, supplier, before.UnixMicro(), before.UnixMicro(), limit).Scan(&ids).Error
	if err != nil || len(ids) == 0 {
		return 0, err
	}
	if err := s.db.From(ctx).Exec(`DELETE FROM material_requests WHERE supplier_id = ? AND id IN ?`, supplier, ids).Error; err != nil {
		return 0, err
	}
	return len(ids), nil
}
