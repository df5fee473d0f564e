package database_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// poolModes are PgBouncer's, with its own defaults otherwise.
var poolModes = []string{"session", "transaction"}

func TestMigrate_through_a_pooler_by_several_processes_at_once(t *testing.T) {
	t.Parallel()
	for _, mode := range poolModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			url := databasetest.Pooled(t, databasetest.EmptyPostgres(t), mode)
			var group sync.WaitGroup
			for range 4 {
				db := raw(t, url, "")
				group.Go(func() {
					if err := db.Migrate(context.WithoutCancel(t.Context())); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if err := raw(t, url, "").CheckSchema(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// roads are the ways to a database: each makes its address from the server's.
func roads() map[string]func(t *testing.T, url string) string {
	list := map[string]func(*testing.T, string) string{"direct": func(t *testing.T, url string) string {
		t.Helper()
		return url
	}}
	for _, mode := range poolModes {
		list[mode] = func(t *testing.T, url string) string { t.Helper(); return databasetest.Pooled(t, url, mode) }
	}
	return list
}

// setting is what the database says of a parameter within a transaction, or in a statement alone.
func setting(ctx context.Context, t *testing.T, db *database.DB, name string) (value string) {
	t.Helper()
	if err := db.From(ctx).Raw(`SELECT current_setting(?)`, name).Scan(&value).Error; err != nil {
		t.Fatal(err)
	}
	return value
}

func TestTransactions_are_read_committed_with_the_profile_s_settings_whatever_the_role_s_defaults(t *testing.T) {
	t.Parallel()
	for name, address := range roads() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := databasetest.Postgres(t)
			exec(t.Context(), t, raw(t, url, ""), `DO $$ BEGIN
				EXECUTE format('ALTER DATABASE %I SET default_transaction_isolation = serializable', current_database());
				EXECUTE format('ALTER DATABASE %I SET statement_timeout = ''7s''', current_database()); END $$`)
			url = address(t, url)
			for profile, timeout := range map[database.Profile]string{database.Serving: "30s", database.Maintenance: "0"} {
				db, err := database.Open(t.Context(),
					database.Config{URL: url, Profile: profile, Log: slog.New(slog.DiscardHandler)})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = db.Close() })
				if err := db.Ping(t.Context()); err != nil {
					t.Fatal(err)
				}
				check := func(ctx context.Context, where, timeout string) {
					if got := setting(ctx, t, db, "transaction_isolation"); got != "read committed" {
						t.Errorf("%s: the level is %s", where, got)
					}
					if got := setting(ctx, t, db, "statement_timeout"); got != timeout {
						t.Errorf("%s: the statement timeout is %s, want %s", where, got, timeout)
					}
				}
				check(t.Context(), "a statement", timeout)
				inTx := func(ctx context.Context, where, timeout string) {
					err := db.InTx(ctx, "test", func(ctx context.Context) error {
						check(ctx, where, timeout)
						return nil
					})
					if err != nil {
						t.Error(err)
					}
				}
				inTx(t.Context(), "a transaction", timeout)
				inTx(database.ForMaintenance(t.Context()), "maintenance", "0")
			}
		})
	}
}

func TestRows_through_a_pooler_change_nothing_and_end_at_their_timeout(t *testing.T) {
	t.Parallel()
	for _, mode := range poolModes {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			db := raw(t, databasetest.Pooled(t, databasetest.Postgres(t), mode), "")
			patient, rows := db.Rows(time.Minute), db.Rows(300*time.Millisecond)
			defer patient.Close()
			defer rows.Close()
			none := func([][]byte) error { return nil }
			for range 2 {
				if err := patient.Select(t.Context(), `DELETE FROM settings`, none); err == nil ||
					!strings.Contains(err.Error(), "read-only") {
					t.Errorf("a change: %v", err)
				}
				if err := rows.Select(t.Context(), `SELECT pg_sleep(5)`, none); errs.KindOf(err) != errs.Unavailable {
					t.Errorf("a slow statement: %v", err)
				}
			}
			looksAsClientsGetIt(t, patient)
		})
	}
}

func TestSettings_do_not_stay_on_a_pooler_s_connections(t *testing.T) {
	t.Parallel()
	url := databasetest.Pooled(t, databasetest.Postgres(t), "transaction")
	db := raw(t, url, "")
	for range 3 {
		if err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
			exec(ctx, t, db, "SELECT 1")
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if got := setting(t.Context(), t, db, "statement_timeout"); got != "0" {
		t.Errorf("a statement outside has the timeout %s", got)
	}
}

func TestProcess_behind_a_pooler_takes_four_connections(t *testing.T) {
	t.Parallel()
	address := databasetest.Postgres(t)
	db := raw(t, databasetest.Pooled(t, address, "session"), "")
	rows := db.Rows(10 * time.Second)
	t.Cleanup(rows.Close)
	if err := db.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() { _ = db.From(ctx).Exec(`SELECT pg_sleep(30)`).Error })
		group.Go(func() { _ = rows.Select(ctx, `SELECT pg_sleep(9)`, func([][]byte) error { return nil }) })
	}
	reaches(t, address, 4)
	cancel()
	group.Wait()
}

func TestCommands_behind_a_pooler_keep_no_connection_that_another_one_needs(t *testing.T) {
	t.Parallel()
	url := databasetest.Pooled(t, databasetest.Postgres(t), "session")
	for range 24 { // more than PgBouncer's 20, one after the other
		db, err := database.Open(t.Context(), database.Config{URL: url, Profile: database.Maintenance,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		rows := db.Rows(10 * time.Second)
		t.Cleanup(rows.Close)
		if err := db.From(t.Context()).Exec(`SELECT 1`).Error; err != nil {
			t.Fatal(err)
		}
		if err := rows.Select(t.Context(), `SELECT 1`, func([][]byte) error { return nil }); err != nil {
			t.Fatal(err)
		}
	}
}

// looksAsClientsGetIt checks that a moment is written in ISO's form and in the time of São Paulo.
func looksAsClientsGetIt(t *testing.T, rows *database.Rows) {
	t.Helper()
	err := rows.Select(t.Context(), `SELECT to_timestamp($1::bigint)`, func(f [][]byte) error {
		if got := string(f[0]); got != "1969-12-31 21:00:00-03" {
			t.Errorf("got %s", got)
		}
		return nil
	}, int64(0))
	if err != nil {
		t.Error(err)
	}
}

func TestRows_look_as_clients_get_them_whatever_the_address_says_in_any_letter_case(t *testing.T) {
	t.Parallel()
	for name, address := range roads() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := address(t, databasetest.Postgres(t)) + "&TimeZone=UTC&DateStyle=German"
			for range 8 { // the parameters of an address have no order
				rows := raw(t, url, "").Rows(10 * time.Second)
				t.Cleanup(rows.Close)
				for range 2 { // the first one finds out how settings are carried
					looksAsClientsGetIt(t, rows)
				}
			}
		})
	}
}

// How long a view of others takes is not known. With however few connections, pages of the service's own do not wait.
func TestReaders_keep_a_connection_from_views_of_others(t *testing.T) {
	t.Parallel()
	list := roads()
	list["as few as may be"] = func(_ *testing.T, url string) string { return url + "&pool_max_conns=4" }
	for name, address := range list {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := raw(t, address(t, databasetest.Postgres(t)), "")
			rows := db.Rows(time.Minute) // for which a page waits; a view of others holds its connection until it ends
			t.Cleanup(rows.Close)
			if err := db.Ping(t.Context()); err != nil { // how settings are carried is known
				t.Fatal(err)
			}
			ctx, end := context.WithCancel(t.Context())
			reads := make(chan struct{})
			once := sync.OnceFunc(func() { close(reads) })
			var views sync.WaitGroup
			defer views.Wait()
			defer end()
			for range db.OthersAtOnce() { // some may wait for the others
				views.Go(func() {
					err := rows.Isolated(ctx, func(database.Select) error { once(); <-ctx.Done(); return nil })
					if once(); ctx.Err() == nil {
						t.Errorf("a view of others: %v", err)
					}
				})
			}
			<-reads
			for range 3 {
				if err := rows.Select(t.Context(), `SELECT 1`, func([][]byte) error { return nil }); err != nil {
					t.Errorf("a page: %v", err)
				}
			}
		})
	}
}
