package deliveries

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/round"
)

// ownRows stores events with their own deliveries, the uids from first to last, each in round 1.
func ownRows(ctx context.Context, t *testing.T, db *database.DB, first, last int64, status Status) {
	t.Helper()
	err := db.InTx(ctx, "test", func(ctx context.Context) error {
		for uid := first; uid <= last; uid++ {
			err := db.From(ctx).Exec(`INSERT INTO webhook_events (uid, round, nonce, supplier_id, trace_id, body, created_at)
				VALUES (?, 1, ?, 'acme', '', '', 1)`, uid, uid).Error
			if err == nil {
				err = db.From(ctx).Exec(`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id,
						status, attempts, series, next_attempt_at, created_at, updated_at, last_started_at, last_status)
					VALUES (?, ?, 1, 'own', 'acme', ?, ?, 1, 1, 0, ?, 1, 1, 200)`,
					idOf(uid, round.OwnEndpoint), uid, uid, status, uid/3).Error
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestVerify_names_what_is_wrong_in_every_batch_and_at_their_edges(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		d := NewKeeper(KeeperDeps{DB: db, Now: time.Now, Stuck: 30 * time.Second})
		ownRows(ctx, t, db, 1, verifyBatch+10, Delivered)
		verify := func(want int) {
			t.Helper()
			ledger, err := d.Verify(ctx)
			if err != nil || len(ledger.Faults) != want || ledger.Deliveries[Delivered] < verifyBatch {
				t.Errorf("%d faults, want %d, of %v: %v %v", len(ledger.Faults), want, ledger.Deliveries,
					ledger.Faults[:min(len(ledger.Faults), 9)], err)
			}
		}
		verify(0)
		for i, uid := range []int64{1, verifyBatch, verifyBatch + 1, verifyBatch + 10} {
			id := idOf(uid, round.OwnEndpoint)
			for _, damage := range []string{
				`UPDATE webhook_deliveries SET last_status = 500 WHERE id = ?`,
				`UPDATE webhook_deliveries SET attempts = 2 WHERE id = ?`,
			} {
				if err := db.From(ctx).Exec(damage, id).Error; err != nil {
					t.Fatal(err)
				}
			}
			verify(2 * (i + 1))
		}
		for _, damage := range []string{`DELETE FROM webhook_events WHERE uid IN (2, ?)`,
			`DELETE FROM webhook_deliveries WHERE uid IN (3, ?)`} {
			if err := db.From(ctx).Exec(damage, verifyBatch+len(damage)%9).Error; err != nil {
				t.Fatal(err)
			}
		}
		ledger, err := d.Verify(ctx)
		if err != nil || len(ledger.Faults) < 11 {
			t.Errorf("%v %v", ledger.Faults, err)
		}
	})
}

func TestVerify_and_the_list_of_pending_deliveries_name_an_attempt_that_is_stuck(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Unix(1_795_000_000, 0)
		d := NewKeeper(KeeperDeps{DB: db, Now: func() time.Time { return now }, Stuck: 90 * time.Second})
		ownRows(t.Context(), t, db, 1, 3, Pending)
		id := idOf(2, round.OwnEndpoint)
		for _, tt := range []struct {
			begun  time.Time
			faults int
		}{{now.Add(-time.Minute), 0}, {now.Add(-time.Hour), 1}} {
			if err := db.From(t.Context()).Exec(`UPDATE webhook_deliveries SET worker = 8, last_started_at = ? WHERE id = ?`,
				tt.begun.UnixMicro(), id).Error; err != nil {
				t.Fatal(err)
			}
			ledger, err := d.Verify(t.Context())
			if err != nil || len(ledger.Faults) != tt.faults {
				t.Errorf("begun at %s: %v %v", tt.begun, ledger.Faults, err)
			}
			page, _, err := d.List(t.Context(), Filter{Status: Pending}, Key{}, 10)
			if err != nil || len(page) != 3 || page[1].ID != id {
				t.Errorf("begun at %s: %+v are listed: %v", tt.begun, page, err)
			}
		}
	})
}

// mark notes what is marked in how many batches.
type mark struct{ rounds, batches int }

func (m *mark) MarkFailed(context.Context, round.Round, string) error  { return nil }
func (m *mark) MarkRefused(context.Context, round.Round, string) error { return nil }

func (m *mark) MarkRedelivered(_ context.Context, rounds ...round.Round) error {
	m.rounds, m.batches = m.rounds+len(rounds), m.batches+1
	return nil
}

func TestRedeliver_of_a_status_takes_each_delivery_once_in_batches(t *testing.T) {
	t.Parallel()
	for _, status := range []Status{Dead, Delivered} {
		databasetest.Each(t, func(t *testing.T, db *database.DB) {
			ctx, ledger := t.Context(), &mark{}
			d := NewKeeper(KeeperDeps{DB: db, Now: func() time.Time { return time.UnixMicro(1_000_000) },
				Ledger: ledger, Log: slog.New(slog.DiscardHandler)})
			const chosen = 2*redeliverBatch + 100
			ownRows(ctx, t, db, 1, chosen, status)
			ownRows(ctx, t, db, chosen+1, chosen+10, Failed)
			n, err := d.RedeliverAll(ctx, Filter{Status: status})
			if got := fmt.Sprint(n, err, ledger.rounds, ledger.batches); got != fmt.Sprint(chosen, nil, chosen, 3) {
				t.Errorf("%s: %s", status, got)
			}
			var pending int64
			err = db.From(ctx).Raw(`SELECT count(*) FROM webhook_deliveries
				WHERE status = 'pending' AND series = 0`).Scan(&pending).Error
			if err != nil || pending != chosen {
				t.Errorf("%d are pending: %v", pending, err)
			}
		})
	}
}
