package work

import (
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Plans are made once a connection, the first ones over empty tables. One that looks a request up by anything else than
// its key goes through all requests of its supplier.
func TestPlans_of_a_young_table_look_rounds_up_by_the_key_of_their_request(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	table, args, err := materials.RoundsTable(db, []round.Round{{SupplierID: "acme", RequestID: 1},
		{SupplierID: "acme", RequestID: 2}}, `supplier_id, id, uid, round, status`)
	if err != nil {
		t.Fatal(err)
	}
	for _, state := range []struct{ name, statement string }{
		{"empty", ``},
		{"with one row", `INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid,
			ticket, created_at, updated_at)
			VALUES ('acme', 1, 'enqueued', '', '', '', '', 1, 1, 1, 1)`},
		{"analyzed", `ANALYZE material_requests`},
		{"visited by autovacuum while empty", `TRUNCATE material_requests; ANALYZE material_requests`},
	} {
		if err := db.From(t.Context()).Exec(state.statement).Error; state.statement != "" && err != nil {
			t.Fatal(err)
		}
		plan := databasetest.Plan(t, db, `SELECT r.supplier_id, r.id FROM `+table+
			` WHERE r.status = 'enqueued' AND r.uid = k.uid AND r.round = k.number`, args...)
		if !strings.Contains(plan, "material_requests_pkey") || strings.Contains(plan, "material_requests_newest") {
			t.Errorf("%s:\n%s", state.name, plan)
		}
	}
}
