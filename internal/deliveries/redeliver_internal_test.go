package deliveries

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/round"
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
			err := db.From(ctx).Exec(`UPDATE webhook_deliveries SET updated_at = 2000000 WHERE uid = 2`).Error
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

func TestRecovery_takes_what_a_worker_has_just_written_whose_clock_is_ahead_and_nothing_later(t *testing.T) {
	t.Parallel()
	now := time.UnixMicro(1000)
	ahead := now.Add(clockApart).UnixMicro()
	for name, recover := range map[string]func(*testing.T, *database.DB, Status) (int64, error){
		"by the operator": func(t *testing.T, db *database.DB, status Status) (int64, error) {
			return process(db, now).RedeliverAll(t.Context(), Filter{Receiver: "acme", Status: status})
		},
		"by the supplier": func(t *testing.T, db *database.DB, status Status) (int64, error) {
			return selfService(t, db, now).Recover(t.Context(), "acme", SentFilter{Status: status})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				for i, status := range []Status{Delivered, Dead, Failed} {
					sentRows(t.Context(), t, db, 3*i+1, 3*i+3, status)
					for _, change := range [][2]int64{{int64(3*i + 2), ahead}, {int64(3*i + 3), ahead + 1}} {
						err := db.From(t.Context()).Exec(`UPDATE webhook_deliveries SET updated_at = ? WHERE uid = ?`,
							change[1], change[0]).Error
						if err != nil {
							t.Fatal(err)
						}
					}
					if n, err := recover(t, db, status); err != nil || n != 2 {
						t.Errorf("%d %s ones are sent again: %v", n, status, err)
					}
				}
			})
		})
	}
}

// fails lets a delivery die while others are redelivered.
type fails struct {
	*mark
	db *database.DB
}

func (f fails) MarkRedelivered(ctx context.Context, rounds ...round.Round) error {
	return errors.Join(f.mark.MarkRedelivered(ctx, rounds...), f.db.From(ctx).Exec(
		`UPDATE webhook_deliveries SET status = 'dead', updated_at = 3600000000 WHERE uid = 2`).Error)
}

func TestRecovery_of_all_undelivered_leaves_out_what_dies_meanwhile_and_notes_how_many_there_were(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ownRows(t.Context(), t, db, 1, 1, Pending)
		ownRows(t.Context(), t, db, 2, 2, Delivered)
		ownRows(t.Context(), t, db, 3, 4, Dead)
		hours := int64(0)
		d := NewKeeper(KeeperDeps{DB: db, Ledger: fails{&mark{}, db}, Log: slog.New(slog.DiscardHandler),
			Now: func() time.Time { hours++; return time.UnixMicro(hours * 3_000_000_000) }})
		ctx, audit := logctx.WithAudit(t.Context())
		if n, err := d.RedeliverAll(ctx, Filter{Status: undelivered}); err != nil || n != 3 {
			t.Errorf("%d are redelivered: %v", n, err)
		}
		var line bytes.Buffer
		audit.Write(ctx, slog.New(slog.NewTextHandler(&line, nil)), "delivery.redeliver", "test", false)
		if !strings.Contains(line.String(), "count=3") {
			t.Errorf("its line: %s", &line)
		}
	})
}
