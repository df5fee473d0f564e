package materials

import (
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Plans are made once a connection, the first ones over empty tables. One that looks a request up by anything else than
// its key goes through all requests of its supplier.
func TestPlans_of_a_young_table_look_requests_up_by_their_key(t *testing.T) {
	t.Parallel()
	s := &store{db: databasetest.Open(t, database.Postgres), events: noEvents{}}
	keys := []requestKey{{"acme", 1}, {"acme", 2}}
	taking, received := s.receiptsPostgres([]receiptItem{{requestKey: keys[0]}, {requestKey: keys[1]}}, time.Now())
	rounds, asked := roundsTable(s.db, []round.Round{{SupplierID: "acme", RequestID: 1},
		{SupplierID: "acme", RequestID: 2}}, `supplier_id, id, uid, round, status`, false)
	const one, inRound = `SELECT * FROM material_requests WHERE `, ` WHERE r.status = 'enqueued' AND r.uid = k.uid
		AND r.round = k.number`
	statements := map[string][]any{
		taking: received,
		`SELECT r.supplier_id, r.id FROM ` + rounds: asked,
		`SELECT r.id FROM ` + rounds + inRound:      asked,
		one + `supplier_id = $1 AND id = $2`:        {"acme", int64(1)},
	}
	for _, state := range []struct{ name, statement string }{
		{"empty", ``},
		{"with one row", `INSERT INTO material_requests (` + intakeColumns +
			`) VALUES ('acme', 1, 'enqueued', '', '', '', '', NULL, 1, 1, 1, 1, 1)`},
		{"analyzed", `ANALYZE material_requests`},
		{"visited by autovacuum while empty", `TRUNCATE material_requests; ANALYZE material_requests`},
	} {
		if err := s.db.From(t.Context()).Exec(state.statement).Error; state.statement != "" && err != nil {
			t.Fatal(err)
		}
		for statement, args := range statements {
			plan := databasetest.Plan(t, s.db, statement, args...)
			if !strings.Contains(plan, "material_requests_pkey") || strings.Contains(plan, "material_requests_listed") {
				t.Errorf("%s: %s\n%s", state.name, statement, plan)
			}
		}
	}
}

// noEvents is an outbox in which nothing is stored.
type noEvents struct{ Outbox }

func (noEvents) BodyOf(_, _, _ string) string { return `NULL` }

func (noEvents) BodyOfOne(_, _, _ string) string { return `NULL` }
