package tracker_test

import (
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// Two first pages once ended in a deadlock: each held its own old note and waited to delete the other's.
func TestFirst_page_waits_for_no_other_crawl_of_its_client(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres) // SQLite has one writer
	var log strings.Builder
	f := newFleetOf(t, newServiceWith(t, db, telemetry.NewLogger(&log, "text", "info", false)))
	f.load(row{Label: "a", Device: 1, Loaded: "2026-11-20"})
	for _, path := range []string{"/list?pageSize=1", "/list?pageSize=2", "/list?pageSize=3"} {
		f.get(path)
	}
	databasetest.Exec(t, db, `UPDATE tracker_pins SET pinned_at = 1`)
	release := databasetest.Freeze(t, db, `UPDATE tracker_pins SET pinned_at = 2 WHERE page_size = 1`)
	f.get("/list?pageSize=4")
	if strings.Contains(log.String(), "could not be noted") {
		t.Errorf("the crawl is not noted: %s", log.String())
	}
	release()
	sizes, err := database.Column[int64](t.Context(), db.SQL(t.Context()),
		`SELECT page_size FROM tracker_pins ORDER BY page_size`)
	if err != nil || len(sizes) != 2 || sizes[0] != 1 || sizes[1] != 4 {
		t.Errorf("crawls that are noted: %v, %v", sizes, err)
	}
}

// The note is not the page: who holds the one writer, as a command does that is stopped, keeps no reader waiting.
func TestPage_is_answered_while_its_crawl_cannot_be_noted(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	var log strings.Builder
	f := newFleetOf(t, newServiceWith(t, db, telemetry.NewLogger(&log, "text", "info", false)))
	f.load(row{Label: "a", Device: 1, Loaded: "2026-11-20"})
	f.get("/list?pageSize=1")
	f.load(row{Label: "b", Device: 2, Loaded: "2026-11-21"})
	databasetest.Freeze(t, db, `UPDATE tracker_pins SET day = day`)
	begun := time.Now()
	got := f.get("/list?pageSize=1")
	if took := time.Since(begun); len(got.Labels) != 1 || got.Labels[0] != "b" || took > 5*time.Second {
		t.Errorf("%v after %v", got, took)
	}
	if !strings.Contains(log.String(), "could not be noted") {
		t.Error("the log does not say it:", log.String())
	}
}
