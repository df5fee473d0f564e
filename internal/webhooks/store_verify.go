package webhooks

import (
	"context"
	"fmt"
)

// mostFaults is how many faults of one kind are named.
const mostFaults = 1000

func (s *store) count(ctx context.Context, status Status) (n int64, err error) {
	if err := s.db.Reader(ctx).Raw(`SELECT count(*) FROM webhook_deliveries WHERE status = ?`, status).Scan(&n).Error; err != nil {
		return 0, fmt.Errorf("count webhook deliveries: %w", err)
	}
	return n, nil
}

// verify runs one of our own checks.
func (s *store) verify(ctx context.Context, statement string) ([]string, error) {
	var found []string
	if err := s.db.Reader(ctx).Raw(statement+` LIMIT ?`, mostFaults).Scan(&found).Error; err != nil {
		return nil, fmt.Errorf("verify webhook deliveries: %w", err)
	}
	return found, nil
}

func (s *store) underway(ctx context.Context, supplierID string, requestIDs []int64) (map[int64]bool, error) {
	var found []int64
	err := s.db.Reader(ctx).Raw(`SELECT request_id FROM webhook_deliveries
		WHERE destination = ? AND status = 'pending' AND supplier_id = ? AND request_id IN ?`, Own, supplierID, requestIDs).Scan(&found).Error
	if err != nil {
		return nil, fmt.Errorf("read deliveries under way: %w", err)
	}
	alive := make(map[int64]bool, len(found))
	for _, id := range found {
		alive[id] = true
	}
	return alive, nil
}
