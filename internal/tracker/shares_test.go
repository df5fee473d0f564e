package tracker_test

import (
	"context"
	"database/sql/driver"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"modernc.org/sqlite"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/telemetry"
	"github.com/supplyhub/supplyhub/internal/tracker"
)

// endless is an expression that is never there, on either engine; resting is another, which leaves the processor alone.
const (
	endless = `(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 - i FROM n) SELECT count(*) FROM n)`
	resting = `(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i FROM n WHERE pg_sleep(0.01) IS NOT NULL)
		SELECT count(*) FROM n)`
)

// errNoSleep is why SQLite has not got the function of PostgreSQL that rests; nil: it has.
var errNoSleep = sqlite.RegisterScalarFunction("pg_sleep", 1,
	func(*sqlite.FunctionContext, []driver.Value) (driver.Value, error) {
		time.Sleep(10 * time.Millisecond)
		return "", nil
	})

// viewWith makes a view of one row with such columns.
func viewWith(tb testing.TB, db *database.DB, name string, values map[string]string) {
	tb.Helper()
	columns := []string{}
	for _, column := range append([]string{"id", "dt_carga"}, strings.Fields(recordFields)...) {
		value := values[column]
		if value == "" {
			value = map[string]string{"id": "1", "dt_carga": "'2026-11-20'", "imei": "1", "data_de_ping": "'2026-11-19'"}[column]
		}
		if value == "" {
			value = "NULL"
		}
		columns = append(columns, value+` AS "`+column+`"`)
	}
	databasetest.Exec(tb, db, "CREATE VIEW "+name+" AS SELECT "+strings.Join(columns, ", "))
}

// clientOf makes a client of one view.
func (f *fleet) clientOf(name, view string) (key string) {
	f.tb.Helper()
	c, err := f.service.CreateClient(context.WithoutCancel(f.tb.Context()), name, []string{view})
	if err != nil {
		f.tb.Fatal(err)
	}
	return c.APIKey
}

// While the calls of one client hang, those that are too many are refused at once, and others are answered.
func TestShares_keep_one_clients_slow_calls_from_others(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := newFleet(t, db)
		f.load(row{Label: "built in", Device: 1, Loaded: "2026-11-20"})
		viewWith(t, db, "quick", map[string]string{"dispositivo": "'quick'"})
		viewWith(t, db, "slow", map[string]string{"perc_bateria": endless})
		quick, slow := f.clientOf("quick", "quick"), f.clientOf("slow", "slow")

		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		var calls sync.WaitGroup
		answers := make(chan *httptest.ResponseRecorder, 16)
		for range cap(answers) {
			calls.Go(func() {
				answers <- ask(ctx, f.engine, slow, "/list")
			})
		}
		var refused *httptest.ResponseRecorder
		wait.Until(t, "all calls of the slow client but its share are refused", func() bool {
			if len(answers) < cap(answers)-1 {
				return false
			}
			refused = <-answers
			return true
		})
		if refused.Code != http.StatusServiceUnavailable || refused.Header().Get("Retry-After") == "" {
			t.Errorf("beyond the share: %d %s", refused.Code, refused.Body)
		}
		for range 50 {
			if p := get(t, f.engine, quick, "/list"); p.Total != 1 {
				t.Fatalf("another view has %+v", p)
			}
			if p := f.get("/list"); p.Total != 1 {
				t.Fatalf("the built-in store has %+v", p)
			}
		}
		hangUp()
		calls.Wait()
	})
}

// gate is a clock at which calls stop while it is closed: a page is then begun and does not end.
type gate struct {
	closed  atomic.Bool
	stopped atomic.Int64
	opened  chan struct{}
}

func (g *gate) now() time.Time {
	if g.closed.Load() {
		g.stopped.Add(1)
		<-g.opened
	}
	return time.Now()
}

// However many pages of the built-in store one client asks for, half of what there is for reading is left to others:
// its calls wait for each other, and those beyond its share are refused at once.
func TestShares_keep_one_clients_many_calls_from_others(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		g := &gate{opened: make(chan struct{})}
		service := newServiceOf(t, tracker.Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: g.now})
		greedy, other := newFleetOf(t, service), newFleetOf(t, service)
		for _, f := range []*fleet{greedy, other} {
			f.load(row{Device: 1, Loaded: "2026-11-20"})
			f.get("/list") // who has the key is remembered
		}
		const calls, inHand = 300, 256
		ctx, hangUp := context.WithCancel(t.Context())
		defer hangUp()
		var ended sync.WaitGroup
		answers := make(chan *httptest.ResponseRecorder, calls)
		g.closed.Store(true)
		for range calls {
			ended.Go(func() { answers <- ask(ctx, greedy.engine, greedy.client.APIKey, "/list?pageSize=7") })
		}
		share := (int64(db.ReadersAtOnce()) + 1) / 2
		wait.Until(t, "the client's share is being read, and those beyond it are refused", func() bool {
			return g.stopped.Load() >= share && len(answers) >= calls-inHand
		})
		g.closed.Store(false)
		for range calls - inHand {
			if a := <-answers; a.Code != http.StatusServiceUnavailable || a.Header().Get("Retry-After") == "" {
				t.Errorf("beyond the share: %d %s", a.Code, a.Body)
			}
		}
		for range 50 {
			if p := other.get("/list?pageSize=7"); p.Total != 1 {
				t.Fatalf("another client has %+v", p)
			}
		}
		hangUp()
		wait.Until(t, "those that wait end", func() bool { return int64(len(answers)) == inHand-share })
		close(g.opened)
		ended.Wait()
		if n := g.stopped.Load(); n != share {
			t.Errorf("%d calls of one client were read at once, its share is %d", n, share)
		}
	})
}

// A page that waits for a second connection while it holds one waits for itself where the reader has one.
func TestViews_of_others_are_read_over_a_reader_of_one_connection(t *testing.T) {
	t.Parallel()
	db := databasetest.OpenURL(t, databasetest.Postgres(t)+"&pool_max_conns=4", "")
	f := newFleet(t, db)
	viewWith(t, db, "quick", map[string]string{"dispositivo": "'quick'"})
	key := f.clientOf("quick", "quick")
	for _, path := range []string{"/list", "/list?page=2&pageSize=1", "/snapshot", "/snapshot?page=2&pageSize=1"} {
		if p := get(t, f.engine, key, path); p.Total != 1 {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

// A view that can be found and not read is a 503; the log names each such view, once a minute.
func TestView_that_fails_is_unavailable_and_named(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		if errNoSleep != nil {
			t.Fatal(errNoSleep)
		}
		var log strings.Builder
		service := newServiceWith(t, db, telemetry.NewLogger(&log, "text", "info", false))
		f := &fleet{tb: t, service: service, engine: serve(service)}
		faults := map[string]map[string]string{"endless_id": {"id": resting}, "endless_field": {"perc_bateria": resting}}
		if db.Engine() == database.Postgres {
			databasetest.Exec(t, db, `CREATE FUNCTION raises() RETURNS text LANGUAGE plpgsql AS $$ BEGIN RAISE 'bent'; END $$`)
			faults["raising"] = map[string]string{"material": "raises()"}
			faults["unordered"] = map[string]string{"id": "'{}'::json"}
		} else {
			faults["raising"] = map[string]string{"material": "json('{')"}
		}
		for name, values := range faults {
			viewWith(t, db, name, values)
			key := f.clientOf(name, name)
			for range 2 {
				if w := answer(f.engine, key, "/list"); w.Code != http.StatusServiceUnavailable {
					t.Errorf("%s: %d %s", name, w.Code, w.Body)
				}
			}
			if n := strings.Count(log.String(), "the granted view "+name+" cannot be read"); n != 1 {
				t.Errorf("%s is named %d times: %s", name, n, log.String())
			}
			if notes := service.ViewNotes(t.Context(), []string{name}); len(notes) == 0 || !strings.Contains(notes[0], name) {
				t.Errorf("%s: notes %q", name, notes)
			}
		}
	})
}

// Rows of a view made here are read by another statement than those of others.
func TestView_made_here_that_the_api_may_not_read_is_none(t *testing.T) {
	t.Parallel()
	address := databasetest.Postgres(t)
	owner := databasetest.OpenURL(t, address, "")
	f, ping := newFleet(t, owner), "2026-11-19"
	f.load(row{Label: "a", Device: 1, Loaded: "2026-11-20", Ping: &ping})
	for _, statement := range []string{
		`DO $$ BEGIN CREATE ROLE tracker_test_reader LOGIN; EXCEPTION WHEN duplicate_object OR unique_violation THEN END $$`,
		`GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO tracker_test_reader`,
		`REVOKE SELECT ON tracker_client_1 FROM tracker_test_reader`,
	} {
		databasetest.Exec(t, owner, statement)
	}
	reader := databasetest.OpenURL(t, databasetest.As(t, address, "tracker_test_reader"), "")
	api := serve(newService(t, reader))
	for _, may := range []bool{false, true} {
		want := http.StatusForbidden
		if may {
			databasetest.Exec(t, owner, `GRANT SELECT ON tracker_client_1 TO tracker_test_reader`)
			want = http.StatusOK
		}
		for _, path := range []string{"/list", "/snapshot"} {
			if w := answer(api, f.client.APIKey, path); w.Code != want {
				t.Errorf("%s: %d %s", path, w.Code, w.Body)
			}
		}
	}
}

// The service remembers that a view was made here; it once believed its counters of another one in its place.
func TestView_that_takes_the_place_of_one_made_here_is_read_at_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f, ping := newFleet(t, db), "2026-11-19"
		for i, label := range []string{"a", "b", "c"} {
			f.load(row{Label: label, Device: int64(i + 1), Loaded: "2026-11-20", Ping: &ping})
		}
		f.compare()
		databasetest.Exec(t, db, `DROP VIEW tracker_client_1`)
		databasetest.Exec(t, db, `CREATE VIEW tracker_client_1 AS SELECT * FROM tracker_records WHERE dispositivo <> 'b'`)
		f.rows = slices.DeleteFunc(f.rows, func(r row) bool { return r.Label == "b" })
		if got := f.get("/list"); !gocmp.Equal(got, cut(list(f.rows, ""), 1, 20)) {
			t.Errorf("the list is %v", got)
		}
		f.compare()
	})
}

func TestView_that_is_made_again_with_other_types_is_read_at_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := newFleet(t, db)
		texts := []string{"'2026-11-20'", "date('2026-11-20')", "'2026-11-20 10:00:00'"}
		for i := range 6 {
			if i > 0 {
				databasetest.Exec(t, db, "DROP VIEW changing")
			}
			viewWith(t, db, "changing", map[string]string{"dt_carga": texts[i%len(texts)], "id": []string{"1", "'a'"}[i%2]})
			if i == 0 {
				f.client.APIKey = f.clientOf("changing", "changing")
			}
			for range 3 {
				if p := f.get("/list?filter=date:eq:2026-11-20"); p.Total != 1 {
					t.Fatalf("made for the %dth time: %+v", i+1, p)
				}
			}
		}
		databasetest.Exec(t, db, "DROP VIEW changing")
		databasetest.Exec(t, db, "CREATE VIEW changing AS SELECT 1 AS id")
		if w := answer(f.engine, f.client.APIKey, "/list"); w.Code != http.StatusServiceUnavailable {
			t.Errorf("a view that lost its columns: %d %s", w.Code, w.Body)
		}
	})
}

func TestViewNotes_name_what_will_not_come_out_right(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := newFleet(t, db)
		viewWith(t, db, "lossy", map[string]string{"perc_bateria": "79.5", "longitude": "'-46,6333'", "dispositivo": "'x'",
			"data_de_captura": "'20/11/2026'", "hora_captura": "'noon'", "ligado": "'maybe'"})
		notes := strings.Join(f.service.ViewNotes(t.Context(), []string{"lossy", "nowhere"}), "\n")
		for _, want := range []string{"perc_bateria", "79.5", "longitude", "-46,6333", "no view nowhere",
			"is not a day of the calendar (YYYY-MM-DD): it", "is not a time of day (HH:mm:ss): it", "is not a boolean: it",
			`CREATE VIEW "lossy"`, "CAST(NULL AS bigint) AS perc_bateria", "CAST(NULL AS date) AS data_de_captura",
			`CREATE VIEW "nowhere"`} {
			if !strings.Contains(notes, want) {
				t.Errorf("%s is not in %s", want, notes)
			}
		}
		viewWith(t, db, "whole", nil)
		if notes := f.service.ViewNotes(t.Context(), []string{"whole"}); len(notes) > 0 {
			t.Errorf("a view that is shown whole has the notes %q", notes)
		}
		if db.Engine() == database.Postgres { // which has types
			viewWith(t, db, "typed", map[string]string{"material": "true"})
			notes := strings.Join(f.service.ViewNotes(t.Context(), []string{"typed"}), "\n")
			if !strings.Contains(notes, `CREATE VIEW "typed"`) ||
				!strings.Contains(notes, `CAST("material" AS text) AS material, identificador,`) {
				t.Errorf("no view to start from is in %s", notes)
			}
		}
		databasetest.Exec(t, db, "CREATE VIEW lacking AS SELECT 1 AS id")
		_, err := f.service.SetViews(t.Context(), f.client.ID, []string{"lacking"})
		if err == nil || !strings.Contains(errorText(err), "dt_carga") || !strings.Contains(errorText(err), "CREATE VIEW") {
			t.Errorf("a view that lacks columns is granted: %v", fmt.Sprint(err))
		}
	})
}
