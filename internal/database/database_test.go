package database_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
)

func exec(ctx context.Context, t *testing.T, db *database.DB, statement string) {
	t.Helper()
	if err := db.From(ctx).Exec(statement).Error; err != nil {
		t.Fatal(err)
	}
}

func count(t *testing.T, db *database.DB) (n int) {
	t.Helper()
	err := db.Reader(t.Context()).Raw(`SELECT count(*) FROM settings`).Scan(&n).Error
	if err != nil {
		t.Fatal(err)
	}
	return n
}

const insert = `INSERT INTO settings (key, value, updated_at) VALUES ('a', 'b', 1)`

func TestInTx_commits_rolls_back_and_nests(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		fault := errors.New("fault")
		if err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
			exec(ctx, t, db, insert)
			return fault
		}); !errors.Is(err, fault) || count(t, db) != 0 {
			t.Errorf("after an error: %v, %d rows", err, count(t, db))
		}
		func() {
			defer func() { _ = recover() }()
			_ = db.InTx(t.Context(), "test", func(ctx context.Context) error { exec(ctx, t, db, insert); panic("on purpose") })
		}()
		if n := count(t, db); n != 0 {
			t.Errorf("after a panic: %d rows", n)
		}
		err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
			err := db.InTx(ctx, "test", func(ctx context.Context) error {
				exec(ctx, t, db, insert)
				return fault
			})
			if !errors.Is(err, fault) {
				t.Errorf("inside: %v", err)
			}
			exec(ctx, t, db, insert) // the inner one left no trace, and the outer one goes on
			return nil
		})
		if err != nil || count(t, db) != 1 {
			t.Errorf("nested: %v, %d rows", err, count(t, db))
		}
	})
}

func TestMigrate_by_several_processes_at_once(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func() *database.DB{
		"postgres": func() func() *database.DB {
			url := databasetest.EmptyPostgres(t)
			return func() *database.DB { return raw(t, url, "") }
		}(),
		"sqlite": func() func() *database.DB {
			path := filepath.Join(t.TempDir(), "x.db")
			return func() *database.DB { return raw(t, "", path) }
		}(),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var group sync.WaitGroup
			for range 4 {
				db := open()
				group.Go(func() {
					if err := db.Migrate(context.WithoutCancel(t.Context())); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			if err := open().CheckSchema(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func raw(t *testing.T, url, path string) *database.DB {
	t.Helper()
	db, err := database.Open(context.WithoutCancel(t.Context()),
		database.Config{URL: url, Path: path, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func TestOpen_errors_never_show_the_password(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"postgres://u:hunter2@h:port/x", "postgres://u:hunter2@127.0.0.1:1/x",
		"mysql://u:hunter2@h/x", "postgres://u:hunter2@h/x?sslmode=nonsense"} {
		db, err := database.Open(t.Context(), database.Config{URL: url, Log: slog.New(slog.DiscardHandler)})
		if err == nil {
			err = db.Ping(t.Context())
			_ = db.Close()
		}
		if err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%v", err)
		}
	}
}

func TestEngineThatIsAway_is_unavailable_and_everything_else_is_not(t *testing.T) {
	t.Parallel()
	db, err := database.Open(t.Context(), database.Config{URL: "postgres://u:p@127.0.0.1:1/x",
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for name, err := range map[string]error{
		"ping": db.Ping(t.Context()), "gorm": db.From(t.Context()).Exec("SELECT 1").Error,
		"transaction": db.InTx(t.Context(), "test", func(context.Context) error { return nil }),
		"reader":      db.Rows(time.Second).Select(t.Context(), "SELECT 1", func([][]byte) error { return nil }),
		"end":         database.Translate(io.ErrUnexpectedEOF),
	} {
		if errs.KindOf(err) != errs.Unavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
	t.Run("a server that refuses to be connected to", func(t *testing.T) {
		t.Parallel()
		none := strings.Replace(databasetest.EmptyPostgres(t), "supplyhub_test_", "supplyhub_none_", 1)
		db, err := database.Open(t.Context(), database.Config{URL: none, Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		if err := db.From(t.Context()).Exec("SELECT 1").Error; errs.KindOf(err) != errs.Unavailable ||
			!strings.Contains(err.Error(), "3D000") {
			t.Errorf("gorm: %v", err)
		}
	})
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		if err := db.From(t.Context()).Exec("SELECT nonsense").Error; err == nil || errs.KindOf(err) != errs.Internal {
			t.Errorf("a wrong statement: %v", err)
		}
		if database.Translate(nil) != nil {
			t.Error("nothing is an error")
		}
	})
}

func TestRows_change_nothing_and_end_at_their_timeout(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		patient, rows := db.Rows(time.Minute), db.Rows(300*time.Millisecond)
		defer patient.Close()
		defer rows.Close()
		none := func([][]byte) error { return nil }
		if db.Engine() == database.Postgres {
			if err := patient.Select(t.Context(), `DELETE FROM settings`, none); err == nil ||
				!strings.Contains(err.Error(), "read-only") {
				t.Errorf("a change: %v", err)
			}
			if err := rows.Select(t.Context(), `SELECT pg_sleep(5)`, none); errs.KindOf(err) != errs.Unavailable {
				t.Errorf("a slow statement: %v", err)
			}
		}
		var got []string
		err := patient.Select(t.Context(), `SELECT 1, NULL, 'é'`, func(f [][]byte) error {
			for _, field := range f {
				got = append(got, string(field))
			}
			return nil
		})
		if err != nil || strings.Join(got, "|") != "1||é" {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

func TestLoad_stores_all_or_nothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		fault := errors.New("fault")
		load := func(rows [][][]byte, end error) error {
			i := 0
			next := func() ([][]byte, error) {
				if i == len(rows) {
					return nil, end
				}
				i++
				return rows[i-1], nil
			}
			return db.Load(t.Context(), "settings", []string{"key", "value", "updated_at"}, next,
				func(_ context.Context, store func() (int64, error)) error {
					n, err := store()
					if err == nil && n != int64(len(rows)) {
						t.Errorf("%d of %d rows", n, len(rows))
					}
					return err
				})
		}
		row := func(key, value string) [][]byte { return [][]byte{[]byte(key), []byte(value), []byte("1")} }
		rows := [][][]byte{row("a", "tab\tnewline\nbackslash\\N \\."), row("b", "é"), row("c", "")}
		for range 300 {
			rows = append(rows, row("k"+time.Now().Format("150405.000000000")+string(rune('a'+len(rows)%26))+
				strings.Repeat("x", len(rows)), "v"))
		}
		if err := load(rows, fault); !errors.Is(err, fault) || count(t, db) != 0 {
			t.Errorf("with a fault in the source: %v, %d rows", err, count(t, db))
		}
		if err := load(append(rows, row("a", "again")), io.EOF); err == nil || count(t, db) != 0 {
			t.Errorf("with a key twice: %v, %d rows", err, count(t, db))
		}
		if err := load(rows, io.EOF); err != nil || count(t, db) != len(rows) {
			t.Fatalf("%v, %d rows", err, count(t, db))
		}
		var value string
		if err := db.Reader(t.Context()).Raw(`SELECT value FROM settings WHERE key = 'a'`).Scan(&value).Error; err != nil ||
			value != "tab\tnewline\nbackslash\\N \\." {
			t.Errorf("got %q, %v", value, err)
		}
	})
}
