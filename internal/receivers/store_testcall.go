package receivers

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/database"
)

// lockTests makes other test calls of the supplier wait for this transaction and returns when the latest were made. The
// row comes first, so that there is one to lock: of two first calls at once the second waits for the first's insertion.
func (s *healthStore) lockTests(ctx context.Context, supplierID string) (recent string, err error) {
	_, err = database.Exec(ctx, s.DB.SQL(ctx), `INSERT INTO webhook_tests (supplier_id, recent) VALUES ($1, '')
		ON CONFLICT (supplier_id) DO NOTHING`, supplierID)
	if err == nil {
		_, err = database.One(ctx, s.DB.SQL(ctx), `SELECT recent FROM webhook_tests WHERE supplier_id = $1`+
			s.DB.RowLock(` FOR UPDATE`), []any{supplierID}, &recent)
	}
	if err != nil {
		return "", fmt.Errorf("count test calls: %w", err)
	}
	return recent, nil
}

// saveTests stores when the latest test calls were made, of the locked row.
func (s *healthStore) saveTests(ctx context.Context, supplierID, recent string) error {
	if _, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_tests SET recent = $1 WHERE supplier_id = $2`, recent,
		supplierID); err != nil {
		return fmt.Errorf("count test calls: %w", err)
	}
	return nil
}
