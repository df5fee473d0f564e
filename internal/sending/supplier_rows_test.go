package sending_test

import (
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
)

func TestEvents_and_attempts_are_stored_with_their_supplier(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{acme: status(500)})
		r.add(event("acme", 1, 1))
		r.settled()
		var rows []string
		err := db.From(t.Context()).Raw(`SELECT supplier_id FROM webhook_events
			UNION ALL SELECT DISTINCT supplier_id FROM webhook_attempts`).Scan(&rows).Error
		if got := strings.Join(rows, " "); err != nil || got != "acme acme" {
			t.Errorf("the rows are of %q: %v", got, err)
		}
	})
}

func TestTables_that_are_spread_are_written_supplier_by_supplier(t *testing.T) {
	t.Parallel()
	db := databasetest.OpenURL(t, databasetest.Spread(t), "")
	r := newRig(t, db, setup{acme: status(500)})
	r.suppliers.learn("other", r.own.URL, r.ownSecret)
	r.add(event("acme", 1, 1), event("other", 1, 1), event("acme", 2, 1))
	r.settled()
	lost := r.list(deliveries.Filter{Status: deliveries.Dead})
	if len(lost) != 2 || len(r.list(deliveries.Filter{Status: deliveries.Delivered})) != 4 {
		t.Fatalf("the deliveries are %+v", r.list(deliveries.Filter{}))
	}
	if n, err := r.Redeliver(t.Context(), lost[0].ID, lost[1].ID); n != 2 || err != nil {
		t.Errorf("%d were redelivered: %v", n, err)
	}
	r.Wake()
	r.settled()
	if d := r.show("acme"); d.AttemptCount != 6 || len(d.Attempts) != 6 {
		t.Errorf("after two schedules a delivery is %+v", d)
	}
	if ledger, err := r.Verify(t.Context()); err != nil || len(ledger.Faults) > 0 {
		t.Errorf("verify found %v: %v", ledger.Faults, err)
	}
}
