package tracker

import (
	"fmt"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// SQLite's planner may begin a join with either side: with the wrong one a page goes through all of a client's records.
func TestPlans_of_SQLite_read_a_page_by_its_ids(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	s := &store{db: db}
	if err := s.ensureView(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	service := New(Deps{DB: db})
	r, err := service.lookUp(t.Context(), viewName(1))
	if err != nil {
		t.Fatal(err)
	}
	for _, strict := range []bool{false, true} {
		g := guard{strict: strict}
		for statement, own := range map[string][]any{
			r.fleetStatement(form{strict: strict}):                {`[1,2,3]`},
			r.listStatement(form{strict: strict, deferred: true}): {"2026-11-20", 1000, 20, 300},
		} {
			var plan strings.Builder
			err := service.rows.Select(t.Context(), "EXPLAIN QUERY PLAN "+statement, func(row [][]byte) error {
				_, err := fmt.Fprintf(&plan, "%s\n", row[3])
				return err
			}, g.args(own...)...)
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(plan.String(), "SEARCH tracker_records USING INTEGER PRIMARY KEY") {
				t.Errorf("%s:\n%s", statement, plan.String())
			}
		}
	}
}

// A planner that has not looked at a table since it was filled takes it for a small one.
func TestPlans_of_a_page_do_not_sort_a_table_that_was_just_filled(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	for _, statement := range []string{`ALTER TABLE tracker_records SET (autovacuum_enabled = off)`,
		`INSERT INTO tracker_records (client_number, dt_carga, imei)
			SELECT 1, date '2026-06-01' + n / 6000, n FROM generate_series(0, 119999) n`} {
		databasetest.Exec(t, db, statement)
	}
	if err := (&store{db: db}).ensureView(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	service := New(Deps{DB: db})
	t.Cleanup(service.Close)
	r, err := service.lookUp(t.Context(), viewName(1))
	if err != nil {
		t.Fatal(err)
	}
	plan := func(statement string, args []any) string {
		t.Helper()
		var plan strings.Builder
		err := service.rows.Select(t.Context(), "EXPLAIN "+statement, func(row [][]byte) error {
			_, err := fmt.Fprintf(&plan, "%s\n", row[0])
			return err
		}, args...)
		if err != nil {
			t.Fatal(err)
		}
		return plan.String()
	}
	for _, f := range []form{{}, {oneDay: true}, {strict: true, first: true}} {
		g := guard{strict: f.strict, key: pinKey{pageSize: 20}}
		got := plan(r.listStatement(f), g.args("2026-11-20", 1000, 20, 300))
		if strings.Contains(got, "Sort") || !strings.Contains(got, "tracker_records_list") {
			t.Errorf("%+v:\n%s", f, got)
		}
	}
	got := plan(r.pingedStatement(), []any{1, "2026-11-20", 1000})
	if strings.Contains(got, "Sort") || !strings.Contains(got, "Only Scan using tracker_records_snapshot") {
		t.Errorf("a day's pings:\n%s", got)
	}
}
