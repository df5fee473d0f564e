package materials

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/round"
)

// behind chooses the next requests in the order of their keys.
const behind = `(supplier_id, id) > (?, ?) ORDER BY supplier_id, id LIMIT ?`

// countBehind counts the next requests behind a key by their status, and returns how many they are and the last one's key.
func (s *store) countBehind(ctx context.Context, after requestKey, counts map[Status]int64) (last requestKey, n int64, err error) {
	var rows []requestRow
	err = s.db.Reader(ctx).Raw(`SELECT supplier_id, id, status FROM material_requests WHERE `+behind, after.SupplierID, after.ID, verifyPage).Scan(&rows).Error
	if err != nil {
		return last, 0, fmt.Errorf("count material requests: %w", err)
	}
	for _, row := range rows {
		counts[row.Status]++
		last = requestKey{row.SupplierID, row.ID}
	}
	return last, int64(len(rows)), nil
}

// matching are the requests behind one key up to another of which the condition, one of our own, holds.
func (s *store) matching(ctx context.Context, after, last requestKey, condition string) ([]requestKey, error) {
	var keys []requestKey
	err := s.db.Reader(ctx).Raw(`SELECT supplier_id, id FROM material_requests WHERE (supplier_id, id) > (?, ?) AND (supplier_id, id) <= (?, ?)
		AND (`+condition+`) ORDER BY supplier_id, id`, after.SupplierID, after.ID, last.SupplierID, last.ID).Scan(&keys).Error
	if err != nil {
		return nil, fmt.Errorf("verify material requests: %w", err)
	}
	return keys, nil
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
