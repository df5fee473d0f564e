package webhooks

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/round"
)

// mostFaults is how many faults of one kind are named.
const mostFaults = 1000

func (s *store) count(ctx context.Context, status Status) (n int64, err error) {
	if err := s.db.Reader(ctx).Raw(`SELECT count(*) FROM webhook_deliveries WHERE status = ?`,
		status).Scan(&n).Error; err != nil {
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

func (s *store) underway(ctx context.Context, rounds []round.Round) (map[round.Round]bool, error) {
	uids := make([]int64, len(rounds))
	ids := make([]string, len(rounds))
	for i, r := range rounds {
		uids[i], ids[i] = r.UID, r.WebhookID(round.Own)
	}
	var found []deliveryRow
	err := s.db.Reader(ctx).Where("destination = ? AND status = 'pending'", Own).
		Where(s.db.Reader(ctx).Where("id IN ?", ids).Or("uid IN ? AND id < 'msg_1'", uids)).Find(&found).Error
	if err != nil {
		return nil, fmt.Errorf("read deliveries under way: %w", err)
	}
	alive := make(map[round.Round]bool, len(found))
	for _, row := range found {
		alive[row.delivery().roundOf()] = true
	}
	return alive, nil
}
