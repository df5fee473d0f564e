package sending_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sending"
)

func TestDeadReceivers_delay_no_other(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		hang := func(_ int, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }
		r := newRig(t, db, setup{deps: func(d *sending.Deps) {
			d.Concurrency, d.Timeout, d.Drain = 16, time.Minute,
				100*time.Millisecond
		}, idle: true})
		dead := newReceiver(t, hang)
		for i := range 20 {
			r.suppliers.learn(fmt.Sprintf("dead%d", i), dead.URL, r.secret)
		}
		var events []round.Outgoing
		for i := range 20 {
			for n := range 5 {
				events = append(events, event(fmt.Sprintf("dead%d", i), int64(n+1), 1))
			}
		}
		r.add(events...)
		r.start()
		wait.Until(t, "dead receivers hold slots", func() bool { return len(dead.got()) >= 4 })
		for n := range 10 {
			r.add(event("acme", int64(n+1), 1))
		}
		wait.Until(t, "the healthy supplier has everything", func() bool { return len(r.acme.got()) == 10 })
	})
}

func TestFailingReceiver_gets_one_probe_at_a_time(t *testing.T) {
	t.Parallel()
	var inFlight, most atomic.Int64
	r := newRig(t, databasetest.Open(t, database.SQLite), setup{
		deps: func(d *sending.Deps) { d.Schedule = []time.Duration{time.Millisecond} },
		acme: func(n int, w http.ResponseWriter, _ *http.Request) {
			now := inFlight.Add(1)
			defer inFlight.Add(-1)
			if n > 8 { // whatever began before the receiver counted as failing has ended
				most.Store(max(most.Load(), now))
			}
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	})
	for n := range 8 {
		r.add(event("acme", int64(n+1), 1))
	}
	r.settled()
	if n := len(r.acme.got()); n != 8*2 {
		t.Errorf("%d attempts, want all of the schedule", n)
	}
	if most.Load() != 1 {
		t.Errorf("%d probes at a time", most.Load())
	}
}

func TestRedeliver_gives_a_whole_new_schedule(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{own: status(http.StatusConflict), acme: func(n int, w http.ResponseWriter, _ *http.Request) {
			if n <= 3 {
				w.WriteHeader(http.StatusBadGateway)
			}
		}})
		r.add(event("acme", 5, 1))
		r.add(event("acme", 5, 2))
		r.add(event("acme", 55, 1))
		r.settled()
		five := 0
		err := r.Each(t.Context(), deliveries.Filter{Requests: []int64{event("acme", 5, 2).Round.UID}}, 3,
			func(d deliveries.Delivery) error {
				if five++; d.RequestID != 5 {
					t.Errorf("it is of request %d", d.RequestID)
				}
				return nil
			})
		of := deliveries.Filter{Requests: []int64{event("acme", 5, 2).Round.UID}}
		got, _, errOf := r.List(t.Context(), of, deliveries.Key{}, 100)
		if five != 3 || len(got) != 4 || err != nil || errOf != nil {
			t.Fatalf("at most %d deliveries of request 5, %d over its rounds, want 3 and 4: %v %v", five, len(got), err, errOf)
		}
		if got := r.list(deliveries.Filter{Status: deliveries.Failed}); len(got) != 3 {
			t.Fatalf("%d failed", len(got))
		}
		d := r.show("own")
		r.own.mu.Lock()
		r.own.answer = nil
		r.own.mu.Unlock()
		if n, err := r.Redeliver(t.Context(), d.ID); err != nil || n != 1 {
			t.Fatal(n, err)
		}
		r.Wake()
		r.settled()
		again, err := r.Show(t.Context(), d.ID)
		if err != nil || again.Status != deliveries.Delivered || again.AttemptCount != 2 {
			t.Errorf("after the redelivery: %+v, %v", again, err)
		}
		if events := r.ledger.noted(); !slices.Contains(events, fmt.Sprintf("reopened acme/%d", d.RequestID)) {
			t.Errorf("the ledger was called with %v", events)
		}
		if _, err := r.Redeliver(t.Context(), d.ID, "msg_nothing"); errs.KindOf(err) != errs.NotFound {
			t.Errorf("an unknown id: %v", err)
		}
		if _, err := r.Show(t.Context(), "msg_nothing"); errs.KindOf(err) != errs.NotFound {
			t.Errorf("an unknown id: %v", err)
		}
		if n, err := r.RedeliverAll(t.Context(),
			deliveries.Filter{Status: deliveries.Failed, Since: time.Now().Add(time.Hour)}); err != nil ||
			n != 0 {
			t.Errorf("of the future: %d, %v", n, err)
		}
		n, err := r.RedeliverAll(t.Context(), deliveries.Filter{Status: deliveries.Failed})
		if err != nil || n != 2 {
			t.Errorf("of the status: %d, %v", n, err)
		}
	})
}

func TestSuppliers_receiver_with_a_private_address_is_never_called(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{deps: func(d *sending.Deps) { d.AllowPrivate = false }})
		r.add(event("acme", 1, 1))
		r.settled()
		if n := len(r.acme.got()); n != 0 {
			t.Errorf("it was called %d times", n)
		}
		if n := len(r.own.got()); n != 1 {
			t.Errorf("the trusted own endpoint was called %d times", n)
		}
		if a := r.show("acme").Attempts[0]; a.Error == nil || !strings.Contains(*a.Error, "not a public one") {
			t.Errorf("the attempt is %+v", a)
		}
	})
}
