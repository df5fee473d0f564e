package database_test

import (
	"context"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// Without a pause the next transaction has begun whenever the other process looks: it waited for the whole command.
func TestYield_lets_another_process_write_between_two_transactions_on_SQLite(t *testing.T) {
	t.Parallel()
	path := databasetest.SQLite(t)
	command, serve := databasetest.OpenURL(t, "", path), databasetest.OpenURL(t, "", path)
	write := func(ctx context.Context, db *database.DB, key string, rows int) error {
		return db.InTx(ctx, "test", func(ctx context.Context) error {
			return db.From(ctx).Exec(`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
				INSERT INTO settings (key, value, updated_at) SELECT ? || i, '', 0 FROM n WHERE true
				ON CONFLICT (key) DO UPDATE SET value = excluded.value`, rows, key).Error
		})
	}
	const most = 100 // of which the other process waits for a few
	begun, written := make(chan struct{}), make(chan error, 1)
	go func() {
		<-begun
		written <- write(t.Context(), serve, "serve", 1)
	}()
	var writing time.Time
	for n := range most {
		if err := write(t.Context(), command, "command", 50_000); err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			close(begun)
		}
		writing = command.Yield(t.Context(), writing)
		select {
		case err := <-written:
			if err != nil {
				t.Fatal(err)
			}
			return
		default:
		}
	}
	t.Errorf("the other process did not get to write between %d transactions", most)
}
