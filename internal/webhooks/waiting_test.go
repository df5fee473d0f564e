package webhooks_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/webhooks"
)

// inTx stores events in a transaction that is open while then runs.
func (r *rig) inTx(events []webhooks.Outgoing, then func()) {
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
	r.inTx([]webhooks.Outgoing{event("acme", 2, 1)}, func() {
		r.inTx([]webhooks.Outgoing{event("acme", 3, 1)}, func() {})
	})
	r.start()
	r.allDeliveredOnce()
}

func TestDelivery_whose_transaction_ends_after_the_ones_before_it_were_sent_is_found(t *testing.T) {
	t.Parallel()
	r := newRig(t, databasetest.Open(t, database.Postgres), setup{})
	r.add(event("acme", 0, 1))
	r.settled()
	if err := r.Pause(t.Context(), "acme", webhooks.PausedByOperator); err != nil {
		t.Fatal(err)
	}
	for id := range int64(20) {
		r.add(event("acme", 1+id, 1))
	}
	r.inTx([]webhooks.Outgoing{event("acme", 21, 1)}, func() {
		if err := r.Resume(t.Context(), "acme", webhooks.PausedByOperator); err != nil {
			t.Error(err)
		}
		until(t, "those before it are sent", func() bool { return len(r.acme.got()) == 21 })
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
					outside.inTx([]webhooks.Outgoing{event("acme", w*each+i, 1)}, func() {})
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
