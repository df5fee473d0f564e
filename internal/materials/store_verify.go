package materials

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/round"
)

func (s *store) countByStatus(ctx context.Context) (map[Status]int64, error) {
	var rows []struct {
		Status Status
		N      int64
	}
	if err := s.db.Reader(ctx).Raw(`SELECT status, count(*) AS n FROM material_requests GROUP BY status`).Scan(&rows).Error; err != nil {
		return nil, fmt.Errorf("count material requests: %w", err)
	}
	counts := map[Status]int64{Enqueued: 0, Estimated: 0, Selected: 0, Failed: 0}
	for _, row := range rows {
		counts[row.Status] = row.N
	}
	return counts, nil
}

// matching are the first thousand requests r of which the condition, one of our own, holds.
func (s *store) matching(ctx context.Context, condition string) ([]requestKey, error) {
	return s.keys(ctx, `SELECT supplier_id, id FROM material_requests r WHERE `+condition+
		` ORDER BY supplier_id, id LIMIT ?`, verifyPage)
}

// sentAfter are the rounds of enqueued requests behind the key of which nothing is left to queue.
func (s *store) sentAfter(ctx context.Context, after requestKey, limit int) ([]round.Round, error) {
	var rows []requestRow
	err := s.db.Reader(ctx).Raw(`SELECT supplier_id, id, uid, round FROM material_requests
		WHERE status = 'enqueued' AND ticket IS NULL AND retry_at IS NULL
		AND (supplier_id > ? OR supplier_id = ? AND id > ?) ORDER BY supplier_id, id LIMIT ?`,
		after.SupplierID, after.SupplierID, after.ID, limit).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("verify material requests: %w", err)
	}
	rounds := make([]round.Round, len(rows))
	for i, row := range rows {
		rounds[i] = row.roundOf()
	}
	return rounds, nil
}

func (s *store) keys(ctx context.Context, statement string, args ...any) ([]requestKey, error) {
	var keys []requestKey
	if err := s.db.Reader(ctx).Raw(statement, args...).Scan(&keys).Error; err != nil {
		return nil, fmt.Errorf("verify material requests: %w", err)
	}
	return keys, nil
}
