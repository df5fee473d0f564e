package sending_test

import (
	"net/http"
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

// SQLite has one writer: there a pause waits for the insertion.
func TestPause_that_comes_between_an_insertion_and_its_COMMIT_is_seen_before_the_call(t *testing.T) {
	t.Parallel()
	for name, wakes := range map[string]bool{"and its wake-up arrives": true, "and its wake-up is lost": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := databasetest.Open(t, database.Postgres)
			r := newRig(t, db, setup{})
			r.add(event("acme", 10, 1))
			r.settled()
			process := r
			if !wakes {
				process = newRig(t, db, setup{idle: true})
			}
			r.inTx([]round.Outgoing{event("acme", 11, 1), event("acme", 12, 1)}, func() {
				if err := process.Pause(t.Context(), "acme", receivers.PausedBySupplier); err != nil {
					t.Error(err)
				}
				paused := time.Now()
				wait.Until(t, "a second has passed", func() bool { return time.Since(paused) > time.Second })
			})
			wait.Until(t, "the own endpoint has all three, and nothing is begun", func() bool {
				var begun int
				err := db.From(t.Context()).Raw(`SELECT count(*) FROM webhook_deliveries WHERE worker IS NOT NULL`).
					Scan(&begun).Error
				return err == nil && begun == 0 && len(r.own.got()) == 3
			})
			if n := len(r.acme.got()) - 1; n > 0 {
				t.Errorf("%d calls began a second after the pause", n)
			}
			for _, d := range r.list(deliveries.Filter{Receiver: "acme", Status: deliveries.Pending}) {
				if d.AttemptCount > 0 {
					t.Errorf("request %d has %d attempts", d.RequestID, d.AttemptCount)
				}
			}
		})
	}
}

func TestAnswers_of_a_former_address_say_nothing_of_the_receiver(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		url    func(*rig) string // the new address
	}{
		"a 410 after a move":       {http.StatusGone, func(r *rig) string { return r.own.URL }},
		"a 410 after the removal":  {http.StatusGone, func(*rig) string { return "" }},
		"a 503 after a move":       {http.StatusServiceUnavailable, func(r *rig) string { return r.own.URL }},
		"a 503 after the removal":  {http.StatusServiceUnavailable, func(*rig) string { return "" }},
		"a success after a move":   {http.StatusOK, func(r *rig) string { return r.own.URL }},
		"a success after a change": {http.StatusOK, func(r *rig) string { return r.own.URL + "/other" }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				free := make(chan struct{})
				r := newRig(t, db, setup{idle: true, deps: func(d *sending.Deps) {
					d.Timeout, d.PauseAfter, d.Concurrency = time.Minute, time.Nanosecond, 64
					d.Schedule = []time.Duration{time.Hour, time.Hour}
				}, acme: func(_ int, w http.ResponseWriter, _ *http.Request) { <-free; w.WriteHeader(test.status) }})
				stop := r.start()
				for id := range int64(5) {
					r.add(event("acme", id, 1))
				}
				wait.Until(t, "five calls are under way", func() bool { return len(r.acme.got()) == 5 })
				r.suppliers.learn("acme", test.url(r), r.secret)
				if err := r.Moved(t.Context(), "acme", test.url(r)); err != nil {
					t.Fatal(err)
				}
				close(free)
				wait.Until(t, "the answers are written down", func() bool {
					var begun int
					err := db.From(t.Context()).Raw(`SELECT count(*) FROM webhook_deliveries WHERE worker IS NOT NULL`).
						Scan(&begun).Error
					return err == nil && begun == 0
				})
				if err := stop(); err != nil { // which stores what was learnt
					t.Fatal(err)
				}
				state, err := r.ReceiverState(t.Context(), "acme")
				if err != nil || state != (receivers.ReceiverState{}) {
					t.Errorf("the receiver is %+v: %v", state, err)
				}
				for _, d := range r.list(deliveries.Filter{Receiver: "acme"}) {
					want := deliveries.Pending
					if test.status == http.StatusOK {
						want = deliveries.Delivered
					}
					if d.Status != want || d.AttemptCount != 1 {
						t.Errorf("request %d is %s after %d attempts", d.RequestID, d.Status, d.AttemptCount)
					}
				}
			})
		})
	}
}

func TestReceiver_that_is_removed_loses_the_service_s_pause_alone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for _, test := range []struct{ by, moved, want string }{
			{receivers.PausedByService, "", ""}, {receivers.PausedByService, "https://b.example", receivers.PausedByService},
			{receivers.PausedBySupplier, "", receivers.PausedBySupplier},
			{receivers.PausedByOperator, "https://b.example", receivers.PausedByOperator},
		} {
			r := newRig(t, db, setup{idle: true})
			id := test.by + test.moved
			r.suppliers.learn(id, "https://a.example", r.secret)
			if err := r.Pause(t.Context(), id, test.by); err != nil {
				t.Fatal(err)
			}
			if err := r.Moved(t.Context(), id, test.moved); err != nil {
				t.Fatal(err)
			}
			state, err := r.ReceiverState(t.Context(), id)
			if err != nil || state.PausedBy != test.want || (state.PausedAt == nil) != (test.want == "") {
				t.Errorf("paused by the %s, moved to %q: %+v, %v", test.by, test.moved, state, err)
			}
		}
	})
}
