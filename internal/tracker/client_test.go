package tracker_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/tracker"
)

func TestClient_that_is_changed_twice_at_one_moment_is_changed_for_who_looked_in_between(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := newFleet(t, db)
		f.load(row{Label: "r1", Device: 1, Loaded: "2026-11-20"})
		moment := time.Now()
		console := tracker.New(tracker.Deps{DB: db, Log: slog.New(slog.DiscardHandler),
			Now: func() time.Time { return moment }})
		t.Cleanup(console.Close)
		if _, err := console.SetActive(t.Context(), f.client.ID, true); err != nil {
			t.Fatal(err)
		}
		if got := f.get("/list"); got.Total != 1 {
			t.Fatalf("the list has %d records", got.Total)
		}
		if _, err := console.SetActive(t.Context(), f.client.ID, false); err != nil {
			t.Fatal(err)
		}
		request := httptest.NewRequest(http.MethodGet, "/list", nil)
		request.Header.Set("svc-public-hub-key", f.client.APIKey)
		w := httptest.NewRecorder()
		if f.engine.ServeHTTP(w, request); w.Code != http.StatusForbidden {
			t.Errorf("a client that was deactivated is answered %d %s", w.Code, w.Body)
		}
	})
}

// A cache takes an answer whose key it does not know of for one that anyone may have.
func TestListings_and_their_refusals_are_kept_by_no_cache(t *testing.T) {
	t.Parallel()
	f := newFleet(t, databasetest.Open(t, database.SQLite))
	f.load(row{Label: "r1", Device: 1, Loaded: "2026-11-20"})
	for key, want := range map[string]int{f.client.APIKey: http.StatusOK, "wrong": http.StatusForbidden} {
		for _, path := range []string{"/list", "/snapshot"} {
			w := answer(f.engine, key, path)
			if kept := w.Header().Get("Cache-Control"); w.Code != want || kept != "no-store" {
				t.Errorf("%s: %d with Cache-Control %q, want %d with no-store", path, w.Code, kept, want)
			}
		}
	}
}
