package receivers

import (
	"context"
	"encoding/json"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// lockTests makes other test calls of the supplier wait for this transaction and returns when the latest were made. The
// row comes first, so that there is one to lock: of two first calls at once the second waits for the first's insertion.
func (s *healthStore) lockTests(ctx context.Context, supplierID string) (recent []int64, err error) {
	var text string
	_, err = database.Exec(ctx, s.DB.SQL(ctx), `INSERT INTO webhook_tests (supplier_id, recent) VALUES ($1, '[]')
		ON CONFLICT (supplier_id) DO NOTHING`, supplierID)
	if err == nil {
		_, err = database.One(ctx, s.DB.SQL(ctx), `SELECT recent FROM webhook_tests WHERE supplier_id = $1`+
			s.DB.RowLock(` FOR UPDATE`), []any{supplierID}, &text)
	}
	if err == nil {
		err = json.Unmarshal([]byte(text), &recent)
	}
	return recent, errs.Doing("count test calls", err)
}

// saveTests stores when the latest test calls were made, of the locked row.
func (s *healthStore) saveTests(ctx context.Context, supplierID string, recent []int64) error {
	text, _ := json.Marshal(recent) // of numbers: it never fails
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `UPDATE webhook_tests SET recent = $1 WHERE supplier_id = $2`,
		string(text), supplierID)
	return errs.Doing("count test calls", err)
}
