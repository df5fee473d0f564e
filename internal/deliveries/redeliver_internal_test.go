package deliveries

import (
	"context"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// SQLite has one writer: there nothing changes between the list and the lock.
func TestRedelivery_leaves_out_what_has_changed_between_its_list_and_its_lock(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	d := process(db, time.UnixMicro(1000))
	sentRows(t.Context(), t, db, 1, 3, Dead)
	held, free := make(chan struct{}), make(chan struct{})
	go func() {
		_ = db.InTx(context.Background(), "test", func(ctx context.Context) error { // it was sent, and died again
			err := db.From(ctx).Exec(`UPDATE webhook_deliveries SET updated_at = 2000 WHERE uid = 2`).Error
			close(held)
			<-free
			return err
		})
	}()
	<-held
	type result struct {
		n   int64
		err error
	}
	ended := make(chan result, 1)
	go func() {
		n, err := d.RedeliverAll(context.Background(), Filter{Receiver: "acme", Status: Dead})
		ended <- result{n, err}
	}()
	wait.Until(t, "it waits for the row", func() bool {
		var n int
		return db.From(t.Context()).Raw(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
			AND datname = current_database()`).Scan(&n).Error == nil && n > 0
	})
	close(free)
	if r := <-ended; r.err != nil || r.n != 2 {
		t.Errorf("%d are redelivered: %v", r.n, r.err)
	}
	if n, err := d.store.count(t.Context(), Filter{Receiver: "acme", Status: Dead}, 10); err != nil || n != 1 {
		t.Errorf("%d are dead: %v", n, err)
	}
}
