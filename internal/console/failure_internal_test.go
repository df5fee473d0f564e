package console

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/web"
)

// A refusal that names a thousand violations is larger than a connection is counted with: it once was an empty 200.
func TestRefusal_of_a_change_that_there_is_no_memory_for_is_a_503_with_its_message(t *testing.T) {
	t.Parallel()
	s, err := New(Deps{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	const bytes = 32 << 10
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler),
		Ledger: httpapi.NewLedger(bytes, bytes)})
	many := slices.Repeat([]errs.Violation{errs.InParameter("since", "must be a date and time")}, 1000)
	engine.POST("/act", s.Act(func(*gin.Context) error { return errs.InvalidInput("The form is not valid.", many...) }))
	post := func(path string) *httptest.ResponseRecorder {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, nil))
		return w
	}
	var w *httptest.ResponseRecorder
	engine.POST("/hold", func(c *gin.Context) {
		if err := httpapi.Hold(c, 1<<40); err != nil { // as much as one caller can have
			t.Error(err)
		}
		w = post("/act")
	})
	post("/hold")
	var outcome web.Outcome
	if err := json.Unmarshal(w.Body.Bytes(), &outcome); err != nil || w.Code != http.StatusServiceUnavailable ||
		w.Header().Get("Retry-After") != "1" || !strings.HasPrefix(outcome.Message, "The service has no memory") {
		t.Errorf("%d %v %.300q, %v", w.Code, w.Header(), w.Body, err)
	}
	if w := post("/act"); w.Code != http.StatusBadRequest {
		t.Errorf("with memory: %d", w.Code)
	}
}
