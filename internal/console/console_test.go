package console

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

func TestNew_reads_every_page_in_both_languages(t *testing.T) {
	t.Parallel()
	if _, err := New(Deps{}); err != nil {
		t.Error(err)
	}
}

func TestPages_say_first_why_retention_ended_a_delivery(t *testing.T) {
	t.Parallel()
	s, err := New(Deps{Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	status, reason := http.StatusInternalServerError, "not delivered within 90 days"
	ended := deliveries.Delivery{ID: "msg_1", SupplierID: "acme", Destination: "acme", Status: deliveries.Dead,
		AttemptCount: 1, LastStatus: &status, LastError: &reason}
	attempts := []deliveries.Attempt{{Number: 1, Status: &status}}
	for page, data := range map[string]any{
		"deliveries": deliveriesView{Items: []deliveryRow{{ended, "Acme"}}},
		"delivery":   deliveryView{&deliveries.Detail{Delivery: ended, Attempts: attempts}, "Acme"},
		"request":    requestView{Deliveries: []*deliveries.Detail{{Delivery: ended, Attempts: attempts}}},
	} {
		engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
		engine.GET("/", s.Page(View{page: page, read: func(context.Context, query) (any, error) { return data, nil }}))
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil))
		why, answer := strings.Index(w.Body.String(), reason), strings.Index(w.Body.String(), ">500<")
		if w.Code != http.StatusOK || why < 0 || answer < why {
			t.Errorf("%s: the reason is at %d, the answer at %d: %s", page, why, answer, w.Body)
		}
	}
}
