package sending_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
)

// In these tests the locks of a lost process never end, and all others must do their work.

// calledFor reports whether the own endpoint was called for each of the requests.
func (r *rig) calledFor(ids []int64) bool {
	calls := r.own.got()
	return !slices.ContainsFunc(ids, func(id int64) bool {
		return !slices.ContainsFunc(calls, func(c call) bool { return strings.Contains(c.path, fmt.Sprintf("/%d/", id)) })
	})
}

// failsOnce refuses its first call.
func failsOnce(n int, w http.ResponseWriter, _ *http.Request) {
	if n == 1 {
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func TestWorkers_send_on_while_a_lost_one_holds_what_it_was_writing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		frozen string
		taken  bool // from the lost worker, what is not held
	}{
		"results": {`UPDATE webhook_deliveries SET status = 'delivered', worker = NULL WHERE destination = 'acme'`, true},
		"a claim": {`SELECT 1 FROM webhook_receivers WHERE supplier_id = 'acme' FOR NO KEY UPDATE`, false},
		"a take-over of another's attempts": {`WITH lease AS (DELETE FROM workers WHERE id = 78)
			UPDATE webhook_deliveries SET worker = NULL WHERE worker = 78`, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := databasetest.Open(t, database.Postgres)
			gone := newRig(t, db, setup{idle: true})
			gone.suppliers.learn("lost", gone.acme.URL, gone.secret)
			gone.add(event("acme", 1, 1), event("lost", 2, 1), event("other", 3, 1))
			for _, statement := range []string{
				`INSERT INTO workers (id, alive_until) VALUES (77, 0), (78, 0)`,
				`UPDATE webhook_shards SET worker = 77`,
				`UPDATE webhook_receivers SET due_at = NULL`,
				`UPDATE webhook_deliveries SET worker = CASE WHEN destination = 'own' THEN 78 ELSE 77 END,
					attempts = 1, series = 1, last_started_at = 1`,
			} {
				gone.exec(statement)
			}
			databasetest.Freeze(t, db, test.frozen)
			next := newRig(t, db, setup{acme: failsOnce})
			lost, fine := newReceiver(t, nil), newReceiver(t, failsOnce)
			next.suppliers.learn("lost", lost.URL, next.secret)
			next.suppliers.learn("fine", fine.URL, next.secret)
			wait.Until(t, "what the lost worker was sending is sent, but for what is held", func() bool {
				return !test.taken || len(lost.got()) > 0
			})
			var ids []int64
			for id := int64(100); id < 110; id++ {
				next.add(event("other", id, 1), event("fine", id+100, 1))
				ids = append(ids, id, id+100)
			}
			wait.Until(t, "new deliveries are made, and a retry of the lost worker's shards", func() bool {
				return next.calledFor(ids) && len(fine.got()) >= len(ids)/2+1
			})
		})
	}
}

func TestClaim_passes_over_a_receiver_that_is_held_and_comes_back_to_it(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	r := newRig(t, db, setup{idle: true})
	r.add(event("acme", 1, 1))
	release := databasetest.Freeze(t, db, `UPDATE webhook_receivers SET updated_at = 2 WHERE supplier_id = 'acme'`)
	fine := newReceiver(t, failsOnce)
	r.suppliers.learn("fine", fine.URL, r.secret)
	r.start()
	r.add(event("fine", 2, 1))
	wait.Until(t, "the other supplier's retry is made", func() bool { return len(fine.got()) == 2 })
	if n := len(r.acme.got()); n > 0 {
		t.Errorf("%d calls for a receiver that is held", n)
	}
	release()
	r.settled()
	if n := len(r.acme.got()); n != 1 {
		t.Errorf("%d calls when it is free", n)
	}
}

func TestSuppliers_without_a_receiver_that_are_held_delay_no_other(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	before := newRig(t, db, setup{idle: true})
	before.suppliers.learn("none", before.acme.URL, before.secret)
	before.add(event("none", 1, 1), event("acme", 2, 1))
	r := newRig(t, db, setup{idle: true}) // for which it has no address any more: it is to be set aside
	databasetest.Freeze(t, db, `SELECT 1 FROM webhook_receivers WHERE supplier_id = 'none' FOR KEY SHARE`)
	r.start()
	wait.Until(t, "the other supplier gets its own", func() bool { return len(r.acme.got()) == 1 })
	wait.Until(t, "its result is written", func() bool {
		return len(r.list(deliveries.Filter{Status: deliveries.Delivered, Receiver: "acme"})) == 1
	})
}
