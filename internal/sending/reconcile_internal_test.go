package sending

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
)

// begunRow is a delivery that worker 8 is making an attempt of.
func begunRow(t *testing.T, db *database.DB, id string, attempts int64) {
	t.Helper()
	err := db.From(t.Context()).Exec(`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id,
			request_id, status, worker, attempts, series, next_attempt_at, created_at, updated_at, last_started_at)
		VALUES (?, 1, 1, 'acme', 'acme', 1, 'pending', 8, ?, ?, 1, 1, 1, 1)`, id, attempts, attempts).Error
	if err != nil {
		t.Fatal(err)
	}
}

func newIdle(t *testing.T, db *database.DB) *Dispatcher {
	t.Helper()
	d := New(Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now})
	t.Cleanup(d.Close)
	d.ownership.owned = allShards()
	return d
}

func TestReconcile_makes_due_what_the_worker_holds_in_the_database_and_not_in_memory_whatever_its_number(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newIdle(t, db)
		begunRow(t, db, "msg_1000a", 1)
		begunRow(t, db, "msg_1000b", 2)
		begunRow(t, db, "msg_1000c", 3)
		d.hold("msg_1000c")
		if err := d.reconcile(t.Context(), 8); err != nil {
			t.Fatal(err)
		}
		rows, err := database.Query(t.Context(), db.SQL(t.Context()),
			`SELECT id FROM webhook_deliveries WHERE worker IS NULL AND status = 'pending' AND attempts > 0 ORDER BY id`, nil,
			func(id *string) []any { return []any{id} })
		if err != nil || len(rows) != 2 || rows[0] != "msg_1000a" || rows[1] != "msg_1000b" {
			t.Errorf("due again are %v, %v", rows, err)
		}
		if due, err := deliveries.NewDueStore(d.deps.DB).Due(t.Context(), allShards(), time.Now()); err != nil ||
			len(due) != 1 {
			t.Errorf("%d destinations are due: %v", len(due), err)
		}
	})
}

func TestReconcile_interrupts_only_the_attempt_that_it_saw(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		begunRow(t, db, "msg_1000a", 2)
		for _, tt := range []struct {
			seen   deliveries.HeldAttempt
			worker int64
			n      int
		}{
			{deliveries.HeldAttempt{ID: "msg_1000a", Number: 1, At: 1}, 8, 0}, // it has ended, and the next one was begun
			{deliveries.HeldAttempt{ID: "msg_1000a", Number: 2, At: 0}, 8, 0}, // given back and begun once more
			{deliveries.HeldAttempt{ID: "msg_1000a", Number: 2, At: 1}, 7, 0}, // another worker took it over
			{deliveries.HeldAttempt{ID: "msg_1000a", Number: 2, At: 1}, 8, 1},
			{deliveries.HeldAttempt{ID: "msg_1000a", Number: 2, At: 1}, 8, 0}, // a COMMIT without an answer, tried again
		} {
			if n, err := deliveries.NewAttemptStore(db).Interrupt(t.Context(), tt.worker, []deliveries.HeldAttempt{tt.seen},
				time.Now()); err != nil || n != tt.n {
				t.Errorf("%+v of worker %d: %d were interrupted, want %d: %v", tt.seen, tt.worker, n, tt.n, err)
			}
		}
	})
}

// An attempt that is being committed is in the worker's hands already: reconcile may see it in the database first.
func TestAttempt_is_held_in_memory_before_its_COMMIT_and_not_after_a_rollback(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newIdle(t, db)
		d.scheduler.Start()
		delivery := planned{DraftDelivery: deliveries.DraftDelivery{Begun: deliveries.Begun{ID: "msg_1000a",
			Destination: deliveries.OwnEndpoint, Worker: 8, At: time.Now()}}}
		delivery.Round.SupplierID = "acme"
		undo := errors.New("undo")
		err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
			if err := d.insert(ctx, []planned{delivery}, nil, map[string]time.Time{}, time.Now(), time.Now()); err != nil {
				return err
			}
			if d.held["msg_1000a"] != 1 {
				t.Error("it is not held")
			}
			return undo
		})
		if !errors.Is(err, undo) || len(d.held) > 0 {
			t.Errorf("%v; held are %v", err, d.held)
		}
	})
}

func TestWorker_is_dead_when_its_renewals_stop_and_never_by_the_clock_of_the_database(t *testing.T) {
	t.Parallel()
	seen, start := sightings{}, time.Now()
	for _, tt := range []struct {
		after   time.Duration
		renewal int64
		dead    bool
	}{
		{0, 100, false}, // however old it looks
		{leaseLife, 100, false},
		{leaseLife + time.Millisecond, 100, true},
		{leaseLife + 2*time.Millisecond, 50, false}, // the database's clock went back: it is a renewal
		{2 * leaseLife, 1_000_000, false},           // and forward
		{3*leaseLife + time.Millisecond, 1_000_000, true},
	} {
		if dead := seen.dead(7, tt.renewal, start.Add(tt.after)); dead != tt.dead {
			t.Errorf("renewal %d after %s: dead is %v", tt.renewal, tt.after, dead)
		}
	}
}
