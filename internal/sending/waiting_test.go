package sending_test

import (
	"context"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sending"
)

// inTx stores events in a transaction that is open while then runs.
func (r *rig) inTx(events []round.Outgoing, then func()) {
	r.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	err := r.db.InTx(ctx, "test", func(ctx context.Context) error {
		if _, err := r.Add(ctx, events); err != nil {
			return err
		}
		then()
		return nil
	})
	if err != nil {
		r.tb.Error(err)
	}
}

// SQLite has one writer: there they wait for each other.
func TestTransactions_that_make_deliveries_of_one_supplier_wait_do_not_wait_for_each_other(t *testing.T) {
	t.Parallel()
	r := newRig(t, databasetest.Open(t, database.Postgres), setup{idle: true})
	r.add(event("acme", 1, 1))
	r.inTx([]round.Outgoing{event("acme", 2, 1)}, func() {
		r.inTx([]round.Outgoing{event("acme", 3, 1)}, func() {})
	})
	r.start()
	r.allDeliveredOnce()
}

func TestDelivery_whose_transaction_ends_after_the_ones_before_it_were_sent_is_found(t *testing.T) {
	t.Parallel()
	r := newRig(t, databasetest.Open(t, database.Postgres), setup{})
	r.add(event("acme", 0, 1))
	r.settled()
	if err := r.Pause(t.Context(), "acme", receivers.PausedByOperator); err != nil {
		t.Fatal(err)
	}
	for id := range int64(20) {
		r.add(event("acme", 1+id, 1))
	}
	r.inTx([]round.Outgoing{event("acme", 21, 1)}, func() {
		if err := r.Resume(t.Context(), "acme", receivers.PausedByOperator); err != nil {
			t.Error(err)
		}
		wait.Until(t, "those before it are sent", func() bool { return len(r.acme.got()) == 21 })
	})
	r.allDeliveredOnce()
}

func TestDeliveries_that_many_transactions_make_wait_are_all_found(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r, outside := newRig(t, db, setup{}), newRig(t, db, setup{idle: true})
		outside.suppliers.learn("acme", r.acme.URL, r.secret)
		const writers, each = 8, 20
		var group sync.WaitGroup
		for w := range int64(writers) {
			group.Go(func() {
				for i := range int64(each) {
					outside.inTx([]round.Outgoing{event("acme", w*each+i, 1)}, func() {})
				}
			})
		}
		group.Wait()
		r.allDeliveredOnce()
		if n := len(r.acme.got()); n != writers*each {
			t.Errorf("%d calls", n)
		}
	})
}

// outage is a rig whose receiver answered 503 until six deliveries wait for an hour, and answers now.
func outage(t *testing.T, db *database.DB) *rig {
	t.Helper()
	r := newRig(t, db, setup{acme: status(http.StatusServiceUnavailable), deps: func(d *sending.Deps) {
		d.Schedule, d.Timeout = []time.Duration{time.Hour, time.Hour}, time.Minute // a slow machine is no failure
	}})
	for id := range int64(6) {
		r.add(event("acme", id, 1))
	}
	wait.Until(t, "all have failed once, and wait", func() bool {
		waiting := 0
		for _, d := range r.list(deliveries.Filter{Receiver: "acme", Status: deliveries.Pending}) {
			if d.AttemptCount == 1 && d.NextAttempt != nil && time.Until(*d.NextAttempt) > 30*time.Minute {
				waiting++
			}
		}
		return waiting == 6
	})
	wait.Until(t, "it is failing", func() bool {
		state, err := r.ReceiverState(t.Context(), "acme")
		return err == nil && state.Failing()
	})
	r.acme.mu.Lock()
	r.acme.answer = nil
	r.acme.mu.Unlock()
	return r
}

// deliveredOnceMore waits until nothing is pending and fails when some delivery was sent twice since the outage.
func (r *rig) deliveredOnceMore(calls int) {
	r.tb.Helper()
	r.settled()
	if n := len(r.acme.got()); n != calls {
		r.tb.Errorf("%d calls, want %d", n, calls)
	}
	for _, d := range r.list(deliveries.Filter{Receiver: "acme"}) {
		if d.Status != deliveries.Delivered || d.AttemptCount > 2 {
			r.tb.Errorf("%s after %d attempts", d.Status, d.AttemptCount)
		}
	}
}

func TestWhat_waits_is_sent_after_the_first_success_of_a_failing_receiver(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := outage(t, db)
		r.add(event("acme", 6, 1))
		r.deliveredOnceMore(13)
	})
}

func TestWhat_waits_is_sent_after_a_resume(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := outage(t, db)
		for _, change := range []func(context.Context, string, string) error{r.Pause, r.Resume} {
			if err := change(t.Context(), "acme", receivers.PausedBySupplier); err != nil {
				t.Fatal(err)
			}
		}
		r.deliveredOnceMore(12)
	})
}

func TestOperator_s_pause_keeps_what_waits_from_a_supplier_s_resume(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := outage(t, db)
		if err := r.Pause(t.Context(), "acme", receivers.PausedByOperator); err != nil {
			t.Fatal(err)
		}
		if err := r.Resume(t.Context(), "acme", receivers.PausedBySupplier); errs.KindOf(err) != errs.Conflict {
			t.Errorf("resumed: %v", err)
		}
		for _, d := range r.list(deliveries.Filter{Receiver: "acme"}) {
			if time.Until(*d.NextAttempt) < 30*time.Minute {
				t.Errorf("it waits until %s", d.NextAttempt)
			}
		}
	})
}

func TestPending_delivery_is_sent_by_its_redelivery_and_its_schedule_goes_on(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := outage(t, db)
		r.acme.mu.Lock()
		r.acme.answer = status(http.StatusServiceUnavailable)
		r.acme.mu.Unlock()
		id := r.show("acme").ID
		for attempts := int64(2); attempts <= 3; attempts++ { // the schedule has two waits
			if _, err := r.Redeliver(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "it was tried", func() bool {
				d, err := r.Show(t.Context(), id)
				return err == nil && d.AttemptCount == attempts && (d.NextAttempt != nil || d.Status == deliveries.Dead)
			})
		}
		d, err := r.Show(t.Context(), id)
		if err != nil || d.Status != deliveries.Dead {
			t.Errorf("%+v: %v", d, err)
		}
	})
}

func TestWorker_makes_at_most_twice_as_many_calls_at_once_as_it_has_slots(t *testing.T) {
	t.Parallel()
	const slots, receivers = 4, 20
	var calls concurrency
	free := make(chan struct{})
	release := sync.OnceFunc(func() { close(free) })
	slow := func(_ int, _ http.ResponseWriter, _ *http.Request) {
		defer calls.enter()()
		<-free
	}
	r := newRig(t, databasetest.Open(t, database.Postgres), setup{own: slow, acme: slow,
		deps: func(d *sending.Deps) { d.Concurrency, d.Timeout = slots, time.Minute }})
	t.Cleanup(release)
	var events []round.Outgoing
	for i := range int64(receivers) {
		supplier := fmt.Sprint("s", i)
		r.suppliers.learn(supplier, r.acme.URL, r.secret)
		events = append(events, event(supplier, i+1, 1))
	}
	r.add(events...)
	wait.Until(t, "slow receivers have more calls than there are slots", func() bool { return calls.most.Load() > slots })
	release()
	r.settled()
	if n := calls.most.Load(); n > 2*slots {
		t.Errorf("%d calls at once with %d slots", n, slots)
	}
}
