package receivers

import (
	"context"
	"fmt"
)

// lockTests makes other test calls of the supplier wait for this transaction and returns when the latest were made.
func (s *healthStore) lockTests(ctx context.Context, supplierID string) (recent string, err error) {
	err = s.DB.From(ctx).Exec(`INSERT INTO webhook_tests (supplier_id, recent) VALUES (?, '')
		ON CONFLICT (supplier_id) DO NOTHING`, supplierID).Error
	if err == nil {
		err = s.DB.From(ctx).Raw(`SELECT recent FROM webhook_tests WHERE supplier_id = ?`+s.DB.RowLock(` FOR UPDATE`),
			supplierID).Scan(&recent).Error
	}
	if err != nil {
		return "", fmt.Errorf("count test calls: %w", err)
	}
	return recent, nil
}

func (s *healthStore) saveTests(ctx context.Context, supplierID, recent string) error {
	if err := s.DB.From(ctx).Exec(`UPDATE webhook_tests SET recent = ? WHERE supplier_id = ?`, recent,
		supplierID).Error; err != nil {
		return fmt.Errorf("count test calls: %w", err)
	}
	return nil
}
