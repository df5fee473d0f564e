package sending_test

import (
	"context"
	"errors"
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

// inLine returns a rig of four slots whose receivers count as fast, however busy this machine is, with 20 events more
// than it can send: 16 or more of their attempts are begun, and the receivers' answers wait for release. A worker whose
// lease a busy machine renews late begins none: then the events are rolled back and added again.
func inLine(t *testing.T, db *database.DB, changes ...func(*sending.Deps)) (
	r *rig, stop func() error, release func()) {
	t.Helper()
	held := make(chan struct{})
	hold := func(n int, _ http.ResponseWriter, r *http.Request) {
		if n > 1 {
			select {
			case <-held:
			case <-r.Context().Done():
			}
		}
	}
	r = newRig(t, db, setup{own: hold, acme: hold, idle: true, deps: func(d *sending.Deps) {
		d.Concurrency, d.Timeout, d.Drain = 4, time.Minute, wait.Limit
		d.Since = func(time.Time) time.Duration { return time.Millisecond }
		for _, change := range changes {
			change(d)
		}
	}})
	stop = r.start()
	r.add(event("acme", 0, 1))
	r.settled()
	var events []round.Outgoing
	for id := range int64(20) {
		events = append(events, event("acme", id+1, 1))
	}
	wait.Until(t, "more attempts are begun than there are slots", func() bool {
		err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
			if _, err := r.Add(ctx, events); err != nil {
				return err
			}
			var begun int64
			err := db.From(ctx).Raw("SELECT count(*) FROM webhook_deliveries WHERE attempts > 0").Scan(&begun).Error
			if err == nil && begun < 2+16 {
				return errRollback
			}
			return err
		})
		if err != nil && !errors.Is(err, errRollback) {
			t.Fatal(err)
		}
		return err == nil
	})
	return r, stop, func() { close(held) }
}

// begun counts the deliveries with an attempt.
func (r *rig) begun() (n int) {
	for _, d := range r.list(deliveries.Filter{}) {
		if d.AttemptCount > 0 {
			n++
		}
	}
	return n
}

func (r *rig) allDeliveredOnce() {
	r.tb.Helper()
	r.settled()
	for _, d := range r.list(deliveries.Filter{}) {
		if d.Status != deliveries.Delivered || d.AttemptCount != 1 {
			r.tb.Errorf("%d to %s is %s after %d attempts", d.RequestID, d.Destination, d.Status, d.AttemptCount)
		}
	}
	ledger, err := r.Verify(r.tb.Context())
	if err != nil || len(ledger.Faults) > 0 {
		r.tb.Errorf("%v %v", ledger.Faults, err)
	}
}

func TestLine_begins_more_attempts_than_there_are_slots_and_sends_each_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r, _, release := inLine(t, db)
		wait.Until(t, "four attempts are in flight", func() bool { return len(r.own.got())+len(r.acme.got()) >= 2+4 })
		if n := len(r.own.got()) + len(r.acme.got()); n > 2+4 {
			t.Errorf("%d attempts are in flight", n-2)
		}
		release()
		r.allDeliveredOnce()
	})
}

func TestLine_that_does_not_move_goes_back_to_the_database_without_an_attempt(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r, _, release := inLine(t, db, func(d *sending.Deps) { d.Timeout = 8 * time.Second })
		wait.Until(t, "the first attempts time out and the others are put back", func() bool { return r.begun() < 2+16 })
		release()
		r.settled()
		ledger, err := r.Verify(t.Context())
		if err != nil || len(ledger.Faults) > 0 || ledger.Deliveries[deliveries.Delivered] != 42 {
			t.Errorf("%v %v", ledger, err)
		}
	})
}

func TestStop_gives_the_line_back_to_other_workers_at_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r, stop, release := inLine(t, db)
		ended := make(chan error, 1)
		go func() { ended <- stop() }()
		wait.Until(t, "the line is given back", func() bool { return r.begun() <= 2+8 })
		other := newRig(t, db, setup{})
		other.suppliers.learn("acme", other.acme.URL, other.secret)
		wait.Until(t, "another worker has sent them", func() bool {
			return len(other.own.got())+len(other.acme.got()) >= 40-8
		})
		release()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		other.allDeliveredOnce()
	})
}

// The queue's own clock does not move, so that nothing goes back because it waited for long.
func TestPause_takes_back_at_once_what_waits_for_its_slot_in_another_process(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		between := &network{}
		still := func(d *sending.Deps) {
			d.Publish, d.Now = between.publish, func() time.Time { return stillAt }
		}
		r, _, release := inLine(t, db, still)
		between.join(r.Dispatcher)
		waiting := func() (n int) {
			for _, d := range r.list(deliveries.Filter{Status: deliveries.Pending}) {
				if d.Destination == "acme" {
					n += int(d.AttemptCount)
				}
			}
			return n - (len(r.acme.got()) - 1) // the first is delivered
		}
		wait.Until(t, "some wait for a slot", func() bool { return waiting() > 0 })
		api := newRig(t, db, setup{idle: true, deps: still})
		if err := api.Pause(t.Context(), "acme", receivers.PausedBySupplier); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "none waits any more", func() bool { return waiting() == 0 })
		calls := len(r.acme.got())
		release()
		wait.Until(t, "the own endpoint has everything", func() bool { return len(r.own.got()) == 21 })
		if n := len(r.acme.got()); n != calls {
			t.Errorf("%d calls were begun while the receiver was paused", n-calls)
		}
		if err := api.Resume(t.Context(), "acme", receivers.PausedBySupplier); err != nil {
			t.Fatal(err)
		}
		r.allDeliveredOnce()
	})
}

var stillAt = time.Now()
