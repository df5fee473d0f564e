package sending_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
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
