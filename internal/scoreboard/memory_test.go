package scoreboard_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
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
			const bytes = 32 << 10
			d.engine = httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler),
				Ledger: httpapi.NewLedger(bytes, bytes)})
			d.engine.POST("/", httpapi.HandleWith(d.Show, scoreboard.RenderError))
			var w *httptest.ResponseRecorder
			d.engine.POST("/hold", func(c *gin.Context) {
				httpapi.Known(c, test.holder)
				if err := httpapi.Hold(c, 1<<40); err != nil { // as much as one caller can have
					t.Error(err)
				}
				w = d.ask("")
			})
			d.engine.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/hold", nil))
			var envelope struct{ HttpStatusCode int }
			if err := json.Unmarshal(w.Body.Bytes(), &envelope); err != nil {
				t.Fatal(err)
			}
			if w.Code != test.want || test.want != 200 && envelope.HttpStatusCode != test.want {
				t.Errorf("%d %.300s", w.Code, w.Body)
			}
		})
	}
}
