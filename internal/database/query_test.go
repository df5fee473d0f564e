package database_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// written is a log that several goroutines write.
type written struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.Write(p)
}

func (w *written) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Reset()
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

func TestLog_of_statements_shows_no_value_and_no_caller_that_hung_up(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]database.Config{"postgres": {URL: databasetest.EmptyPostgres(t)},
		"sqlite": {Path: t.TempDir() + "/x.db"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log written
			config.Log = slog.New(slog.NewTextHandler(&log, nil))
			db, err := database.Open(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			gone, hangUp := context.WithCancel(t.Context())
			hangUp()
			if db.From(gone).Exec("SELECT nonsense FROM nowhere WHERE a = ?", "hunter2").Error == nil {
				t.Error("a statement of an unknown user succeeds")
			}
			if log.String() != "" {
				t.Errorf("a caller that hung up is logged: %s", log.String())
			}
			if db.From(t.Context()).Exec("SELECT nonsense FROM nowhere WHERE a = ?", "hunter2").Error == nil {
				t.Error("a wrong statement succeeds")
			}
			if printed := log.String(); strings.Contains(printed, "hunter2") || !strings.Contains(printed, "nowhere") ||
				!strings.Contains(printed, "level=ERROR") {
				t.Errorf("a wrong statement is logged as %s", printed)
			}
		})
	}
}

func TestLog_says_once_a_minute_that_the_database_is_unavailable(t *testing.T) {
	t.Parallel()
	var log written
	db, err := database.Open(t.Context(), database.Config{URL: "postgres://u:hunter2@127.0.0.1:1/x",
		Log: telemetry.NewLogger(&log, "text", "info", false)})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for range 10 {
		if db.From(t.Context()).Exec("SELECT 1").Error == nil {
			t.Fatal("no server answers")
		}
	}
	if printed := log.String(); strings.Count(printed, "\n") != 1 || strings.Contains(printed, "hunter2") ||
		strings.Contains(printed, "level=ERROR") {
		t.Errorf("it is logged as:\n%s", printed)
	}
}

// Reading 16 MiB may take a busy machine longer than the tracker's reads may take, so it is tested here, without haste.
func TestRow_of_a_view_may_be_as_large_as_the_largest_record_and_not_larger(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		text, beyond := "SELECT repeat('x', %d << 20)", 18
		if db.Engine() == database.SQLite { // which knows no row by itself, only what it sorts
			text, beyond = "SELECT printf('%%.*c', %d << 20, 'x') AS x ORDER BY x", 36
		}
		rows := db.Rows(time.Hour)
		t.Cleanup(rows.Close)
		length := func(size int) (n int, err error) {
			err = rows.Others().Isolated(t.Context(), func(read database.Select) error {
				return read(t.Context(), fmt.Sprintf(text, size), func(fields [][]byte) error {
					n = len(fields[0])
					return nil
				})
			})
			return n, err
		}
		if n, err := length(16); err != nil || n != 16<<20 {
			t.Errorf("a row as large as the largest record: %d bytes, %v", n, err)
		}
		_, err := length(beyond)
		if view, ok := errors.AsType[*database.ViewError](err); !ok || !view.Large {
			t.Errorf("a larger row: %v", err)
		}
	})
}
