// Package databasetest gives tests fresh, migrated databases on both real engines.
// SQLite needs nothing; PostgreSQL is the server that SUPPLYHUB_TEST_POSTGRES names, which the command
// withpostgres below this folder starts and `make test` uses. A missing server fails the test, it never skips it.
package databasetest

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/database"
	_ "github.com/supplyhub/supplyhub/internal/database/sqlite" // the embedded engine
)

// Environment is the variable with the address of the PostgreSQL server's maintenance database.
const Environment = "SUPPLYHUB_TEST_POSTGRES"

// walks of a model over a real database: each takes seconds with the race detector.
const walks = 20

// Walk is rapid.Check for a model over a real database, with fewer walks. A failure is shrunk as far as rapid does.
func Walk(t *testing.T, walk func(*rapid.T)) {
	t.Helper()
	WalkUntil(t, func() bool { return true }, walk)
}

// WalkUntil is Walk that goes on, up to as many walks as rapid makes, until what has to be seen was seen.
func WalkUntil(t *testing.T, seen func() bool, walk func(*rapid.T)) {
	t.Helper()
	walked, failed := 0, false
	rapid.Check(t, func(rt *rapid.T) {
		if walked++; walked > walks && !failed && seen() {
			return
		}
		failed = true // unless it comes to its end
		walk(rt)
		failed = rt.Failed()
	})
}

// Each runs fn in the parallel subtests "sqlite" and "postgres", each on a fresh migrated database of its own.
func Each(t *testing.T, fn func(t *testing.T, db *database.DB)) {
	t.Helper()
	for _, engine := range []database.Engine{database.SQLite, database.Postgres} {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			fn(t, Open(t, engine))
		})
	}
}

// EachB is Each for benchmarks, one engine after the other.
func EachB(b *testing.B, fn func(b *testing.B, db *database.DB)) {
	b.Helper()
	for _, engine := range []database.Engine{database.SQLite, database.Postgres} {
		b.Run(string(engine), func(b *testing.B) { fn(b, Open(b, engine)) })
	}
}

// Open opens a fresh migrated database that is closed and removed at the end of the test.
func Open(tb testing.TB, engine database.Engine) *database.DB {
	tb.Helper()
	if engine == database.Postgres {
		return OpenURL(tb, patient(Postgres(tb)), "")
	}
	return OpenURL(tb, "", SQLite(tb))
}

// patient returns the address with a server that waits for the next statement of a transaction: on a busy machine a
// test may take longer than a process that lives.
func patient(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	query := u.Query()
	query.Set("idle_in_transaction_session_timeout", "2min")
	u.RawQuery = query.Encode()
	return u.String()
}

// Exec runs a statement that prepares a test, however long a busy machine takes for its rows.
func Exec(tb testing.TB, db *database.DB, statement string, args ...any) {
	tb.Helper()
	run := func(ctx context.Context) error { return db.From(ctx).Exec(statement, args...).Error }
	ctx := database.ForMaintenance(context.WithoutCancel(tb.Context()))
	var err error
	if strings.HasPrefix(statement, "VACUUM") { // it takes no transaction
		err = run(ctx)
	} else {
		err = db.InTx(ctx, "prepare a test", run)
	}
	if err != nil {
		tb.Fatalf("%s: %v", statement, err)
	}
}

// OpenURL opens the database at url or, when url is empty, the SQLite file at path, and closes it at the end of the
// test.
func OpenURL(tb testing.TB, url, path string) *database.DB {
	tb.Helper()
	db, err := database.Open(context.Background(),
		database.Config{URL: url, Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Errorf("close database: %v", err)
		}
	})
	return db
}

// SQLite returns the path of a fresh migrated SQLite file in a directory of the test's own.
func SQLite(tb testing.TB) string {
	tb.Helper()
	content, err := sqliteTemplate()
	if err != nil {
		tb.Fatalf("make the SQLite template: %v", err)
	}
	path := filepath.Join(tb.TempDir(), "supplyhub.db")
	if err := os.WriteFile(path, content, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// sqliteTemplate is the content of a migrated file, made once a process.
var sqliteTemplate = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "supplyhub-sqlite-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "template.db")
	if err := migrate(context.Background(), "", path); err != nil {
		return nil, err
	}
	return os.ReadFile(path) // closing has moved the whole write-ahead log into it
})

func migrate(ctx context.Context, url, path string) (err error) {
	db, err := database.Open(ctx, database.Config{URL: url, Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer func() {
		if closed := db.Close(); err == nil {
			err = closed
		}
	}()
	return db.Migrate(ctx)
}

// Plan returns how the engine would run a statement, line by line.
func Plan(tb testing.TB, db *database.DB, statement string, args ...any) string {
	tb.Helper()
	prefix, places := `EXPLAIN `, func(line *string) []any { return []any{line} }
	if db.Engine() == database.SQLite {
		prefix, places = `EXPLAIN QUERY PLAN `, func(line *string) []any { return []any{new(int), new(int), new(int), line} }
	}
	lines, err := database.Query(tb.Context(), db.SQL(tb.Context()), prefix+statement, args, places)
	if err != nil {
		tb.Fatal(err)
	}
	return strings.Join(lines, "\n")
}
