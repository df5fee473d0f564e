package database_test

import (
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	_ "github.com/glebarez/go-sqlite"
	"github.com/google/go-cmp/cmp"
	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// before0_1_0 makes a database as the last version before 0.1.0 left it.
func before0_1_0(t *testing.T, driver, address, dir string, dialect goose.Dialect) {
	t.Helper()
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	provider, err := goose.NewProvider(dialect, db, os.DirFS(filepath.Join("migrations", dir)),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 7); err != nil {
		t.Fatal(err)
	}
	blob := map[string]string{"sqlite": `x'00'`, "postgres": `'\x00'`}[dir]
	request := func(id int, status, round, sweep, event, failure string) {
		estimates := "NULL"
		if event != "NULL" {
			estimates = "'[]'"
		}
		run(t, db, `INSERT INTO material_requests VALUES ('sup_a', `+strconv.Itoa(id)+`, '`+status+`', `+round+`, `+blob+
			`, 's', '{}', 't', `+sweep+`,
			NULL, NULL, '`+failure+`', 7200000000, 7300000000, `+event+`, `+estimates+`, `+estimates+`, '')`)
	}
	event := func(id int, round, at, own, receiver string) {
		key := "sup_a/" + strconv.Itoa(id) + "/" + round
		first := "msg_0" + strconv.Itoa(id) + round
		run(t, db, `INSERT INTO webhook_events VALUES ('`+key+`', '`+first+`a', 't', `+blob+`, `+at+`)`)
		for suffix, delivery := range map[string][2]string{"a": {"own", own}, "b": {"sup_a", receiver}} {
			if delivery[1] == "" {
				continue
			}
			run(t, db, `INSERT INTO webhook_deliveries VALUES ('`+first+suffix+`', '`+key+`', '`+delivery[0]+`', 'sup_a', `+
				strconv.Itoa(id)+`, '`+delivery[1]+`',
				2, 2, 7300000000, `+at+`, `+at+`, 1, 1, 200, '', NULL)`)
			run(t, db, `INSERT INTO webhook_attempts VALUES ('`+first+suffix+`', 1, 1, 1, 503, '', NULL)`)
		}
	}
	const at = "7200000001"
	request(1, "enqueued", "1", "9", "NULL", "") // waits for its estimation
	request(2, "enqueued", "1", "NULL", "NULL", "")
	event(2, "1", at, "pending", "pending") // is on its way
	request(3, "enqueued", "2", "NULL", "5", "")
	event(3, "1", at, "delivered", "")
	event(3, "2", at, "delivered", "") // was stuck: its event counted as older than the one before
	request(4, "estimated", "1", "NULL", "5", "")
	event(4, "1", at, "delivered", "pending")
	request(5, "selected", "1", "NULL", "5", "")
	event(5, "1", at, "delivered", "delivered")
	request(6, "failed", "1", "NULL", "NULL", "the estimates could not be delivered: dial tcp 10.1.2.3:80: refused")
	event(6, "1", at, "dead", "")
	request(7, "failed", "1", "NULL", "NULL", "no tariff in host.internal")
	request(8, "enqueued", "1", "NULL", "NULL", "") // was stuck: its id had a life before, whose delivery is still tried
	event(8, "1", "1", "delivered", "pending")
	event(9, "1", at, "delivered", "pending") // was deleted by retention, with this still tried
}

func run(t *testing.T, db *sql.DB, statement string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), statement); err != nil {
		t.Fatalf("%v: %s", err, statement)
	}
}

func TestMigrate_takes_requests_in_every_state_along(t *testing.T) {
	t.Parallel()
	for _, engine := range []database.Engine{database.SQLite, database.Postgres} {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			var url, path string
			if engine == database.Postgres {
				url = databasetest.EmptyPostgres(t)
				before0_1_0(t, "pgx", url, "postgres", goose.DialectPostgres)
			} else {
				path = filepath.Join(t.TempDir(), "hub.db")
				before0_1_0(t, "sqlite", path, "sqlite", goose.DialectSQLite3)
			}
			db := raw(t, url, path)
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			type requestState struct {
				ID      int
				Status  string
				Round   int
				Queued  bool
				Taken   bool
				Failure string
			}
			var got []requestState
			err := db.From(t.Context()).Raw(`SELECT id, status, round, ticket IS NOT NULL AS queued,
				received = round AS taken, failure FROM material_requests ORDER BY id`).Scan(&got).Error
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]requestState{
				{1, "enqueued", 1, true, false, ""}, {2, "enqueued", 1, false, false, ""}, {3, "enqueued", 3, true, false, ""},
				{4, "estimated", 1, false, true, ""}, {5, "selected", 1, false, true, ""},
				{6, "failed", 1, false, false,
					"The delivery estimates were computed and could not be delivered in the whole retry schedule."},
				{7, "failed", 1, false, false, "The delivery estimates of this request could not be computed."},
				{8, "enqueued", 1, true, false, ""},
			}, got); diff != "" {
				t.Errorf("requests (-want +got):\n%s", diff)
			}
			var deliveries []string
			err = db.From(t.Context()).Raw(`SELECT r.id || '/' || d.round || ' ' || d.destination || ' ' || d.status || ' ' ||
					(SELECT count(*) FROM webhook_attempts a WHERE a.delivery_id = d.id)
				FROM webhook_deliveries d JOIN webhook_events e ON e.uid = d.uid AND e.round = d.round
				JOIN material_requests r ON r.uid = d.uid ORDER BY 1`).Scan(&deliveries).Error
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{
				"2/1 own pending 1", "2/1 sup_a pending 1", "3/1 own delivered 1", "3/2 own delivered 1", "4/1 own delivered 1",
				"4/1 sup_a pending 1",
				"5/1 own delivered 1", "5/1 sup_a delivered 1", "6/1 own dead 1",
			}, deliveries); diff != "" {
				t.Errorf("deliveries (-want +got):\n%s", diff)
			}
			for table, want := range map[string]int{"webhook_deliveries": 9, "webhook_events": 6, "webhook_attempts": 9,
				"material_rounds": 1} {
				var n int
				if err := db.From(t.Context()).Raw(`SELECT count(*) FROM ` + table).Scan(&n).Error; err != nil || n != want {
					t.Errorf("%s has %d rows, want %d: %v", table, n, want, err)
				}
			}
		})
	}
}
