package scoreboard_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/httpapi/bodytest"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
)

// What strangers hold takes nothing from a caller with a right key. A caller for whom there is no memory is refused in
// the route's envelope.
func TestMemory_of_a_caller_with_the_key_is_not_the_strangers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		holder string // "": a stranger
		want   int
	}{"strangers": {"", 200}, "another requester": {"loop", 503}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := newRig(t, databasetest.Open(t, database.SQLite), noon(), time.Minute)
			d.primary.board = func(context.Context) (scoreboard.Board, error) {
				return games(slices.Repeat([]string{"2026-11-21T20:00:00Z"}, 100)...), nil // more than a connection is counted with
			}
			w, status, _ := askedWhileHeld(t, d, test.holder, "")
			if w.Code != test.want || test.want != 200 && status != test.want {
				t.Errorf("%d %.300s", w.Code, w.Body)
			}
		})
	}
}

// askedWhileHeld asks while the holder, "" for a stranger, has as much memory as one caller can have. It returns the
// answer and what its envelope says.
func askedWhileHeld(t *testing.T, d *rig, holder, query string) (w *httptest.ResponseRecorder, status int,
	short string) {
	t.Helper()
	const bytes = 32 << 10
	d.engine = httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler),
		Ledger: httpapi.NewLedger(bytes, bytes)})
	d.engine.POST("/", httpapi.HandleWith(d.Show, scoreboard.RenderError))
	bodytest.WhileHeld(t, d.engine, holder, func() { w = d.ask(query) })
	var envelope struct {
		HttpStatusCode int
		ShortMessage   string
	}
	if err := json.Unmarshal(w.Body.Bytes(), &envelope); err != nil {
		t.Fatalf("%d %q: %v", w.Code, w.Body, err)
	}
	return w, envelope.HttpStatusCode, envelope.ShortMessage
}

// A refusal that names a thousand violations is larger than a connection is counted with: it once was an empty 200.
func TestRefusal_that_there_is_no_memory_for_is_a_503_in_the_envelope(t *testing.T) {
	t.Parallel()
	d := newRig(t, databasetest.Open(t, database.SQLite), noon(), time.Minute)
	w, status, short := askedWhileHeld(t, d, "loop", "?"+strings.Repeat("%zz&", 1000))
	if w.Code != http.StatusServiceUnavailable || status != w.Code || short != "SERVICE_UNAVAILABLE" ||
		w.Header().Get("Retry-After") != "1" || w.Header().Get("X-RateLimit-Remaining") != "80" {
		t.Errorf("%d %v %.300s", w.Code, w.Header(), w.Body)
	}
	if w := d.ask("?" + strings.Repeat("%zz&", 1000)); w.Code != http.StatusBadRequest {
		t.Errorf("with memory: %d", w.Code)
	}
}
