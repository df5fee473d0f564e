package sending_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sending"
)

// waitsLong stores n deliveries to acme's receiver that wait for an hour yet, and pauses it.
func (r *rig) waitsLong(n int) {
	r.tb.Helper()
	numbers := `generate_series(1, ?) AS i`
	if r.db.Engine() == database.SQLite {
		numbers = `(WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < ?) SELECT i FROM s)`
	}
	now := time.Now().UnixMicro()
	r.exec(`INSERT INTO webhook_receivers (supplier_id, shard, updated_at, paused_by, paused_at, due_at)
		VALUES ('acme', ?, 1, 'supplier', 1, ?)`, round.ShardOf("acme"), now+3600_000_000)
	r.exec(`INSERT INTO webhook_events (uid, round, supplier_id, trace_id, body, created_at)
		SELECT 1000 + i, 1, 'acme', '', '', 1 FROM `+numbers, n)
	r.exec(`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at, last_started_at)
		SELECT 'msg_000000000' || (10000000 + i), 1000 + i, 1, 'acme', 'acme', i, 'pending', 1, 1,
			CAST(? AS bigint) - i, ?, ?, 1
		FROM `+numbers, now+3600_000_000, now, now, n)
}

func TestResume_sends_all_that_waits_in_the_order_of_acceptance_and_changes_none_of_it(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		const n = 100
		r := newRig(t, db, setup{idle: true})
		r.suppliers.limit("acme", 1)
		r.waitsLong(n)
		if err := r.Resume(t.Context(), "acme", receivers.PausedBySupplier); err != nil {
			t.Fatal(err)
		}
		var due []int64
		if err := db.From(context.Background()).Raw(`
			SELECT next_attempt_at FROM webhook_deliveries WHERE next_attempt_at < ?`,
			time.Now().Add(time.Minute).UnixMicro()).Scan(&due).Error; err != nil || len(due) > 0 {
			t.Errorf("%d deliveries were changed by it: %v", len(due), err)
		}
		r.start()
		wait.Until(t, "all are sent", func() bool { return len(r.acme.got()) == n })
		if ids := r.acmeGot(); !slices.IsSorted(ids) {
			t.Errorf("they came in the order %v", ids)
		}
	})
}

// acmeGot returns the requests of the calls that acme's receiver got, in their order.
func (r *rig) acmeGot() (ids []int) {
	r.tb.Helper()
	for _, c := range r.acme.got() {
		var id int
		if _, err := fmt.Sscanf(strings.TrimPrefix(c.path, "/base/api/material-requests/"), "%d/", &id); err != nil {
			r.tb.Fatal(err)
		}
		ids = append(ids, id)
	}
	return ids
}

func TestDelivery_that_fails_after_a_resume_waits_by_its_schedule_and_another_worker_goes_on_behind_it(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		const n = 40
		r := newRig(t, db, setup{idle: true, deps: func(d *sending.Deps) {
			d.Schedule = []time.Duration{time.Hour, time.Hour, time.Hour}
		}, acme: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n <= 3 {
				w.WriteHeader(http.StatusInternalServerError)
			}
		}})
		r.suppliers.limit("acme", 1)
		r.waitsLong(n)
		if err := r.Resume(t.Context(), "acme", receivers.PausedBySupplier); err != nil {
			t.Fatal(err)
		}
		stop := r.start()
		wait.Until(t, "some are sent", func() bool { return len(r.acme.got()) > 10 })
		if err := stop(); err != nil {
			t.Fatal(err)
		}
		next := newRig(t, db, setup{})
		next.suppliers.learn("acme", r.acme.URL+"/base", r.secret)
		wait.Until(t, "all but three are delivered", func() bool {
			return len(r.list(deliveries.Filter{Receiver: "acme", Status: deliveries.Pending})) == 3
		})
		if calls := len(r.acme.got()); calls != n {
			t.Errorf("%d calls", calls)
		}
		for _, d := range r.list(deliveries.Filter{Receiver: "acme", Status: deliveries.Pending}) {
			if d.AttemptCount != 2 || time.Until(*d.NextAttempt) < 30*time.Minute {
				t.Errorf("request %d waits until %s after %d attempts", d.RequestID, d.NextAttempt, d.AttemptCount)
			}
		}
	})
}

func TestReceiver_that_fails_and_gets_another_address_is_sent_all_that_waits_at_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		const n = 20
		r := newRig(t, db, setup{idle: true})
		r.waitsLong(n)
		r.exec(`UPDATE webhook_receivers SET paused_by = '', paused_at = NULL, consecutive_failures = 5, failing_since = 1`)
		if err := r.Moved(t.Context(), "acme", r.acme.URL+"/base"); err != nil {
			t.Fatal(err)
		}
		r.start()
		wait.Until(t, "all are sent", func() bool { return len(r.acme.got()) == n })
	})
}

// An operator pauses a receiver that is overloaded, lowers its limit and resumes it.
func TestReceiver_is_called_by_the_limit_that_it_has_now_when_all_becomes_due(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		const n, limit = 40, 2
		var calls concurrency
		r := newRig(t, db, setup{idle: true, deps: func(d *sending.Deps) { d.Concurrency = 64 },
			acme: func(_ int, _ http.ResponseWriter, _ *http.Request) {
				defer calls.enter()()
				time.Sleep(time.Millisecond) // so that calls overlap
			}})
		for id := range int64(n) {
			r.add(event("acme", id, 1))
		}
		r.suppliers.limit("acme", limit)
		r.start()
		wait.Until(t, "all are sent", func() bool { return len(r.acme.got()) == n })
		if n := calls.most.Load(); n > limit {
			t.Errorf("%d calls at once, at most %d may be", n, limit)
		}
	})
}
