package database_test

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// begun is the end of a statement that runs by then, without a time limit of its own.
func begun(t *testing.T, db *database.DB, statement string) (end chan error) {
	t.Helper()
	end = make(chan error, 1)
	go func() { end <- db.From(t.Context()).Exec(statement).Error }()
	wait.Until(t, "the statement runs", func() bool {
		var n int
		err := db.From(t.Context()).Raw(`SELECT count(*) FROM pg_stat_activity WHERE state = 'active' AND query = ?`,
			statement).Scan(&n).Error
		return err == nil && n == 1
	})
	return end
}

// ownServer is a server of its own, which may be frozen.
func ownServer(t *testing.T) *cluster.Cluster {
	t.Helper()
	server, err := cluster.Start(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	return server
}

// serverOf is a server of its own that runs the statement.
func serverOf(t *testing.T, statement string) (server *cluster.Cluster, db *database.DB, end chan error) {
	t.Helper()
	server = ownServer(t)
	db = raw(t, server.Address(), "")
	return server, db, begun(t, db, statement)
}

func TestServer_that_hangs_keeps_no_caller_waiting_and_is_used_again_when_it_answers(t *testing.T) {
	t.Parallel()
	server, db, end := serverOf(t, `SELECT pg_sleep(25)`)
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-end:
		if errs.KindOf(err) != errs.Unavailable {
			t.Errorf("the statement that hung: %v", err)
		}
	case <-time.After(wait.Limit):
		t.Fatal("a statement waits for a server that hangs")
	}
	if err := db.From(t.Context()).Exec(`SELECT 1`).Error; errs.KindOf(err) != errs.Unavailable {
		t.Errorf("a statement for a server that hangs: %v", err)
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the server is used again", func() bool { return db.Ping(t.Context()) == nil })
}

func TestServer_that_takes_long_for_a_statement_does_not_hang(t *testing.T) {
	t.Parallel()
	db := raw(t, databasetest.Postgres(t), "")
	if err := db.From(t.Context()).Exec(`SELECT pg_sleep(5)`).Error; err != nil {
		t.Error(err)
	}
}

// andNowhere returns the address of a server with a second host, where there is none.
func andNowhere(t *testing.T, server *cluster.Cluster) string {
	t.Helper()
	return strings.Replace(server.Address()+"%2C1", "&port=", "%2C"+url.QueryEscape(t.TempDir())+"&port=", 1)
}

func TestServer_that_is_silent_is_unavailable_in_each_way_of_asking_it(t *testing.T) {
	t.Parallel()
	db := raw(t, andNowhere(t, ownServer(t)), "")
	rows := db.Rows(time.Minute)
	t.Cleanup(rows.Close)
	nothing := func([][]byte) error { return nil }
	for name, ask := range map[string]func(ctx context.Context) error{
		"a statement": func(ctx context.Context) error { return db.From(ctx).Exec(`SELECT pg_sleep(8)`).Error },
		"a statement with parameters": func(ctx context.Context) error {
			_, err := database.Exec(ctx, db.SQL(ctx), `SELECT pg_sleep($1)`, 8)
			return err
		},
		"a query": func(ctx context.Context) error {
			_, err := database.Column[string](ctx, db.SQL(ctx), `SELECT pg_sleep($1)::text`, 8)
			return err
		},
		"rows": func(ctx context.Context) error { return rows.Select(ctx, `SELECT pg_sleep(8)`, nothing) },
		"rows with parameters": func(ctx context.Context) error {
			return rows.Select(ctx, `SELECT pg_sleep($1)`, nothing, 8)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := ask(t.Context()); errs.KindOf(err) != errs.Unavailable {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestView_that_is_silent_for_a_while_is_read_and_costs_no_other_its_connection(t *testing.T) {
	t.Parallel()
	db := raw(t, andNowhere(t, ownServer(t)), "")
	rows := db.Rows(10 * time.Second)
	t.Cleanup(rows.Close)
	ask := func(query string, args ...any) string {
		answer, err := database.Column[string](t.Context(), db.SQL(t.Context()), query, args...)
		if err != nil || len(answer) != 1 {
			t.Fatal(answer, err)
		}
		return answer[0]
	}
	other := ask(`SELECT pg_backend_pid()::text`)
	err := rows.Isolated(t.Context(), func(read database.Select) error {
		return read(t.Context(), `SELECT pg_sleep(5)`, func([][]byte) error { return nil })
	})
	if err != nil {
		t.Errorf("the view: %v", err)
	}
	if n := ask(`SELECT count(*)::text FROM pg_stat_activity WHERE pid = $1::int`, other); n != "1" {
		t.Error("another caller's connection is closed")
	}
}

func TestServer_that_has_a_successor_is_given_up_soon_but_not_by_maintenance(t *testing.T) {
	t.Parallel()
	db := raw(t, andNowhere(t, ownServer(t)), "")
	sleep := func(ctx context.Context) error { return db.From(ctx).Exec(`SELECT pg_sleep(8)`).Error }
	if err := sleep(t.Context()); errs.KindOf(err) != errs.Unavailable {
		t.Errorf("a statement that another server is to be asked: %v", err)
	}
	patiently := func() error { return db.InTx(database.ForMaintenance(t.Context()), "wait", sleep) }
	if err := patiently(); err != nil {
		t.Errorf("a statement that may take long: %v", err)
	}
	if err := db.From(t.Context()).Exec(`CREATE TABLE loaded (n bigint)`).Error; err != nil {
		t.Fatal(err)
	}
	rows := 0
	slow := func() ([][]byte, error) { // the server says nothing until the last row has come
		if rows++; rows > 1 {
			return nil, io.EOF
		}
		return [][]byte{[]byte("1")}, patiently()
	}
	err := db.Load(t.Context(), "loaded", []string{"n"}, slow,
		func(_ context.Context, store func() (int64, error)) error {
			_, err := store()
			return err
		})
	if err != nil {
		t.Errorf("a load whose rows come slowly: %v", err)
	}
}

func TestProcess_that_starts_waits_for_a_server_that_is_busy(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	if err := server.FreezeNew(); err != nil {
		t.Fatal(err)
	}
	waitsUntil(t, database.Config{URL: server.Address()}, server.Thaw)
}

// Another process is about to make the file a database with a write-ahead log: SQLite then asks no busy handler.
func TestProcess_that_starts_waits_for_another_one_that_makes_the_file(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.db")
	other, err := sql.Open("sqlite", "file:"+path+"?_txlock=immediate")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	tx, err := other.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	waitsUntil(t, database.Config{Path: path}, tx.Rollback)
}

// waitsUntil looks at and migrates a database that is busy, as a start does, and frees it when the log says that it
// waits for it.
func waitsUntil(t *testing.T, config database.Config, free func() error) {
	t.Helper()
	waiting := make(chan struct{}, 1)
	config.Log = slog.New(noticing{slog.DiscardHandler, "waiting for the database: it is busy", waiting})
	db, err := database.Open(t.Context(), config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	migrated := make(chan error, 1)
	go func() { migrated <- errors.Join(db.GlanceAtFile(t.Context(), wait.Limit), db.Migrate(t.Context())) }()
	select {
	case <-waiting:
	case err := <-migrated:
		t.Fatalf("it does not wait: %v", err)
	case <-time.After(wait.Limit):
		t.Fatal("the log does not say that it waits")
	}
	if err := free(); err != nil {
		t.Fatal(err)
	}
	if err := <-migrated; err != nil {
		t.Error(err)
	}
}

// noticing signals the first line with a text.
type noticing struct {
	slog.Handler
	text string
	seen chan struct{}
}

func (n noticing) Enabled(context.Context, slog.Level) bool { return true }

func (n noticing) Handle(_ context.Context, r slog.Record) error {
	if r.Message == n.text {
		select {
		case n.seen <- struct{}{}:
		default:
		}
	}
	return nil
}
