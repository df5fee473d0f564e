package sending_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/notify"
	"github.com/supplyhub/supplyhub/internal/sending"
)

// takeAway ends all leases, as another worker ends that of one that was stopped for too long.
func (r *rig) takeAway() {
	r.tb.Helper()
	if err := r.db.From(context.Background()).Exec(`DELETE FROM workers`).Error; err != nil {
		r.tb.Fatal(err)
	}
}

func TestAttempt_of_a_dead_worker_is_made_again_within_seconds_whatever_the_timeout(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		long := func(d *sending.Deps) { d.Timeout = time.Hour }
		gone := newRig(t, db, setup{idle: true, deps: long})
		gone.add(event("acme", 1, 1))
		// A killed worker leaves this: an attempt under a lease that is not renewed.
		for _, statement := range []string{
			`INSERT INTO workers (id, alive_until) VALUES (77, 0)`,
			`UPDATE webhook_deliveries SET worker = 77, attempts = 1, series = 1, last_started_at = 1
				WHERE destination = 'acme'`,
		} {
			databasetest.Exec(t, db, statement)
		}
		next := newRig(t, db, setup{deps: long})
		next.suppliers.learn("acme", next.acme.URL, next.secret)
		wait.Until(t, "the attempt is made again", func() bool { return len(next.acme.got()) == 1 })
		next.settled()
		d := next.show("acme")
		if d.Status != deliveries.Delivered || d.AttemptCount != 2 || d.Attempts[0].Error == nil ||
			!strings.Contains(*d.Attempts[0].Error, "interrupted") {
			t.Errorf("the delivery is %+v", d)
		}
	})
}

func TestDelivery_whose_schedule_became_shorter_dies_for_what_its_last_attempt_came_to(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{idle: true, deps: func(d *sending.Deps) {
			d.Schedule, d.Notifier = nil, notify.New(notify.Deps{DB: d.DB, Log: d.Log, Now: d.Now})
		}})
		r.add(event("acme", 1, 1))
		r.suppliers.learn("other", r.acme.URL, r.secret)
		r.add(event("other", 2, 1))
		for _, statement := range []string{
			`UPDATE webhook_deliveries SET attempts = 1, series = 1, last_started_at = 1`,
			`UPDATE webhook_deliveries SET last_duration_us = 1, last_status = 503, last_error = 'its own log says why'
				WHERE destination = 'acme'`,
			`UPDATE webhook_deliveries SET last_duration_us = 1, last_error = 'no answer within 15s' WHERE destination = 'own'`,
		} {
			databasetest.Exec(t, db, statement)
		}
		r.start()
		r.settled()
		got, err := database.Column[string](t.Context(), db.SQL(t.Context()),
			`SELECT error FROM operator_notices ORDER BY error`)
		want := []string{"interrupted: the worker ended during this attempt", "no answer within 15s", "no answer within 15s",
			"status 503: its own log says why"}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("the operator is notified of %q: %v", got, err)
		}
		if e := r.ledger.noted(); len(e) != 2 || !strings.HasSuffix(e[0], "delivered: no answer within 15s") {
			t.Errorf("the ledger was called with %q", e)
		}
	})
}

func TestStopped_worker_writes_nothing_of_what_was_taken_from_it(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		release := make(chan struct{})
		once := sync.OnceFunc(func() { close(release) })
		t.Cleanup(once)
		var calls atomic.Int64
		slow := newRig(t, db, setup{deps: func(d *sending.Deps) { d.Timeout = time.Minute },
			acme: func(_ int, w http.ResponseWriter, _ *http.Request) {
				if calls.Add(1) == 1 {
					<-release
					w.WriteHeader(http.StatusGone) // would be final
				}
			}})
		slow.add(event("acme", 1, 1))
		wait.Until(t, "the first attempt is under way", func() bool { return calls.Load() == 1 })
		slow.takeAway()
		wait.Until(t, "it is delivered by the living worker",
			func() bool { return slow.show("acme").Status == deliveries.Delivered })
		once()
		wait.Until(t, "the late call is over", func() bool { return len(slow.acme.got()) == 2 })
		slow.add(event("acme", 2, 1)) // its results are written behind the late one
		slow.settled()
		for _, d := range slow.list(deliveries.Filter{}) {
			if d.Destination == "acme" && d.RequestID == 1 && (d.Status != deliveries.Delivered || d.AttemptCount != 2) {
				t.Errorf("the late result made it %s after %d attempts", d.Status, d.AttemptCount)
			}
		}
		ids := map[string]bool{}
		for _, c := range slow.acme.got() {
			if strings.Contains(c.path, "/1/") {
				ids[c.header.Get("webhook-id")] = true
			}
		}
		if len(ids) != 1 {
			t.Errorf("the receiver saw the event under %d ids", len(ids))
		}
	})
}
