package acceptance

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// analyst is a role that may make views in a schema of its own and has no other right.
type analyst struct {
	hub  *apptest.Hub
	name string
	conn *sql.Conn // the analyst's own
	own  *sql.Conn // the owner's
}

func newAnalyst(t *testing.T, h *apptest.Hub, name string) *analyst {
	t.Helper()
	a := &analyst{hub: h, name: name, own: session(t, h.Env["DATABASE_URL"])}
	execute(t, a.own, fmt.Sprintf(`DO $$ BEGIN CREATE ROLE %s LOGIN; EXCEPTION WHEN duplicate_object THEN END $$`, name),
		fmt.Sprintf(`CREATE SCHEMA %[1]s AUTHORIZATION %[1]s`, name))
	a.conn = session(t, databasetest.As(t, h.Env["DATABASE_URL"], name))
	execute(t, a.conn, `CREATE TABLE `+name+`.noted (text text)`)
	return a
}

func execute(t *testing.T, conn *sql.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// view makes a view whose column material is the expression, and lets those read it who read views of others.
func (a *analyst) view(t *testing.T, name, material string) string {
	t.Helper()
	columns := []string{`1 AS id`, `date '2026-11-20' AS dt_carga`}
	for _, field := range strings.Fields(recordFields) {
		value := map[string]string{"imei": "1::bigint", "material": material, "dispositivo": "'" + name + "'",
			"data_de_ping": "date '2026-11-19'"}[field]
		if value == "" {
			value = "NULL::text"
		}
		columns = append(columns, value+" AS "+field)
	}
	full := a.name + "." + name
	execute(t, a.conn, "CREATE VIEW "+full+" AS SELECT "+strings.Join(columns, ", "),
		"GRANT USAGE ON SCHEMA "+a.name+" TO supplyhub_tracker, supplyhub_api",
		"GRANT SELECT ON "+full+" TO supplyhub_tracker, supplyhub_api")
	return full
}

// function makes a function of the analyst's that returns text.
func (a *analyst) function(t *testing.T, name, volatility, body string) string {
	t.Helper()
	full := a.name + "." + name + "()"
	execute(t, a.conn, "CREATE FUNCTION "+full+" RETURNS text LANGUAGE plpgsql "+volatility+" AS $$ BEGIN "+body+" END $$")
	return full
}

// A view runs the code of who made it. These are what such code could do with the rights and the session of its reader.
func TestRights_of_the_code_in_a_view_are_its_logins_and_end_with_the_read(t *testing.T) {
	t.Parallel()
	for name, env := range map[string]map[string]string{
		"a login of its own": nil, "the api's login": {"TRACKER_DATABASE_URL": ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1, LeastRights: true, Env: env})
			h.Supplier(t)
			apart := env == nil
			a := newAnalyst(t, h, map[bool]string{true: "etl_apart", false: "etl_shared"}[apart])
			plain := newTrackerClient(t, h)
			plain.load(t, tracked("A", 1, "2026-11-20", "2026-11-19", nil), tracked("B", 2, "2026-11-20", "2026-11-19", nil))
			count := func(statement string) (n int) {
				t.Helper()
				if err := a.own.QueryRowContext(t.Context(), statement).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			attack := func(view string) (answers []apptest.Answer) {
				t.Helper()
				c := newTrackerClient(t, h, "--views", view)
				for range 3 {
					answers = append(answers, c.get(t, trackers), c.get(t, snapshot))
				}
				if _, names := plain.page(t, trackers); names != "BA" {
					t.Errorf("after %s another client's list is %q", view, names)
				}
				if _, names := plain.page(t, snapshot); names != "AB" {
					t.Errorf("after %s another client's snapshot is %q", view, names)
				}
				return answers
			}

			if apart {
				peek := a.function(t, "peek", "STABLE", `RETURN (SELECT string_agg(name, ' ') FROM public.suppliers);
					EXCEPTION WHEN insufficient_privilege THEN RETURN 'refused';`)
				for _, answer := range attack(a.view(t, "reads", peek)) {
					if want(t, answer, 200); !strings.Contains(string(answer.Body), `"material":"refused"`) {
						t.Errorf("a view reads another table: %s", answer.Body)
					}
				}
			}
			write := a.function(t, "write", "VOLATILE", `PERFORM set_config('default_transaction_read_only', 'off', false);
				INSERT INTO `+a.name+`.noted VALUES (current_user); RETURN 'written';`)
			execute(t, a.conn, "GRANT INSERT ON "+a.name+".noted TO PUBLIC")
			attack(a.view(t, "writes", write))
			if n := count("SELECT count(*) FROM " + a.name + ".noted"); n != 0 {
				t.Errorf("a view wrote %d rows", n)
			}
			settings := a.function(t, "settings", "VOLATILE", `PERFORM set_config('search_path', 'pg_catalog', false),
				set_config('statement_timeout', '1ms', false), set_config('datestyle', 'SQL, DMY', false),
				pg_advisory_lock(4711); RETURN 'set';`)
			attack(a.view(t, "sets", settings))
			// The server shows the locks of all its databases, and the same view is read in another one. Its time limit of a
			// millisecond may cut short what ends the lock; then the session's end does, which the answer does not wait for.
			// A session that was kept would live for longer than this waits.
			if !wait.Within(5*time.Second, func() bool {
				return count("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND objid = 4711 AND database = "+
					"(SELECT oid FROM pg_database WHERE datname = current_database())") == 0
			}) {
				t.Error("a view left locks")
			}
			temporary := a.function(t, "temporary", "VOLATILE", `CREATE TEMPORARY TABLE tracker_clients (number int);
				RETURN 'made';`)
			execute(t, a.own, `DO $$ BEGIN
				EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO PUBLIC', current_database()); END $$`)
			for _, answer := range attack(a.view(t, "makes", temporary)) {
				wantProblem(t, answer, 503)
			}
			forged := a.function(t, "forged", "VOLATILE", `RAISE EXCEPTION 'no room' USING ERRCODE = '53300';`)
			for _, answer := range attack(a.view(t, "raises", forged)) {
				wantProblem(t, answer, 503)
			}
			if log := h.APIs[0].Log(); strings.Contains(log, "makes do with the fewest") {
				t.Errorf("a view's code has the api believe that the server is full")
			}
			// The planner runs what is called immutable, before it looks at any right.
			grant := a.function(t, "plan", "IMMUTABLE", `IF has_table_privilege('public.supplier_api_keys', 'INSERT') THEN
				EXECUTE 'GRANT ALL ON public.supplier_api_keys TO `+a.name+`'; END IF; RETURN current_user;`)
			attack(a.view(t, "plans", grant))
			if n := count(`SELECT has_table_privilege('` + a.name + `', 'public.supplier_api_keys', 'SELECT')::int`); n != 0 {
				t.Error("the owner has given a view's code his rights")
			}
		})
	}
}
