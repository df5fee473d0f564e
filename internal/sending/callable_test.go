package sending_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/round"
)

// uncallable makes a delivery wait for each of n suppliers that have no receiver any more, before those of acme.
func (r *rig) uncallable(n int) {
	r.tb.Helper()
	events := make([]round.Outgoing, n)
	for i := range events {
		id := fmt.Sprintf("Agone%04d", i)
		r.suppliers.learn(id, r.acme.URL, r.secret)
		events[i] = event(id, int64(i), 1)
	}
	r.add(events...)
	r.suppliers.mu.Lock()
	defer r.suppliers.mu.Unlock()
	for id := range r.suppliers.known {
		if id != "acme" {
			delete(r.suppliers.known, id)
		}
	}
}

// gone stores, for each of n suppliers that nothing is known of, a delivery that waits before those of acme.
func (r *rig) gone(n int) {
	r.tb.Helper()
	var deliveries, receivers []string
	for i := range n {
		id := fmt.Sprintf("Agone%04d", i)
		deliveries = append(deliveries,
			fmt.Sprintf(`('msg_0gone%d', %d, 1, '%s', '%s', 1, 'pending', 0, 0, 1, 1, 1)`, i, i, id, id))
		receivers = append(receivers, fmt.Sprintf(`('%s', %d, 1, 1)`, id, round.ShardOf(id)))
	}
	for _, statement := range []string{
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at) VALUES ` + strings.Join(deliveries, `, `),
		`INSERT INTO webhook_receivers (supplier_id, shard, due_at, updated_at) VALUES ` + strings.Join(receivers, `, `),
	} {
		r.exec(statement)
	}
}

func TestSuppliers_that_cannot_be_called_keep_no_other_waiting_however_many_they_are(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{idle: true})
		r.gone(5000)
		r.add(event("acme", 1, 1))
		r.start()
		wait.Until(t, "acme has its delivery", func() bool { return len(r.acme.got()) == 1 })
	})
}

func TestSupplier_that_can_be_called_again_gets_what_waited(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{idle: true})
		r.uncallable(3)
		r.start()
		wait.Until(t, "they are set aside", func() bool {
			return r.count(`SELECT count(*) FROM webhook_receivers WHERE due_at IS NOT NULL`) == 0
		})
		r.suppliers.learn("Agone0001", r.acme.URL, r.secret)
		if err := r.Callable(t.Context(), "Agone0001"); err != nil {
			t.Fatal(err)
		}
		wait.Until(t, "its delivery arrives", func() bool { return len(r.acme.got()) == 1 })
		if n := len(r.list(deliveries.Filter{Status: deliveries.Pending})); n > 2 {
			wait.Until(t, "the others wait", func() bool {
				return len(r.list(deliveries.Filter{Status: deliveries.Pending})) == 2
			})
		}
	})
}
