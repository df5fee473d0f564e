package console

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/receivers"
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

// A page that began at a number of rows once skipped as many receivers as had recovered since the page before.
func TestReceivers_are_each_on_one_page_whatever_becomes_of_those_before_it(t *testing.T) {
	t.Parallel()
	for name, meanwhile := range map[string]func(states map[string]receivers.ReceiverState, shown []receiver){
		"all of them recover": func(states map[string]receivers.ReceiverState, shown []receiver) {
			for _, r := range shown {
				delete(states, r.SupplierID)
			}
		},
		"one of them recovers": func(states map[string]receivers.ReceiverState, shown []receiver) {
			delete(states, shown[len(shown)-1].SupplierID)
		},
		"more fail": func(states map[string]receivers.ReceiverState, shown []receiver) {
			for _, r := range shown {
				states[r.SupplierID[:len(r.SupplierID)-1]] = receivers.ReceiverState{Failures: 5}
			}
		},
	} {
		states, want := map[string]receivers.ReceiverState{}, []string{}
		for i := range 2*rows + 1 { // of each state: the second page has both
			id := fmt.Sprintf("sup_%03d_", i)
			states[id+"f"], states[id+"p"] = receivers.ReceiverState{Failures: 5}, receivers.ReceiverState{PausedBy: "operator"}
			want = append(want, "failing "+id+"f", "paused "+id+"p")
		}
		slices.Sort(want)
		var got []string
		page, next := pageOf(illReceivers(states, ""), "")
		for {
			for _, r := range page {
				got = append(got, r.State+" "+r.SupplierID)
			}
			if next == "" || len(got) > 2*len(want) {
				break
			}
			meanwhile(states, page)
			page, next = pageOf(illReceivers(states, ""), next)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestReadDecimal_refuses_what_may_be_thousands_and_takes_what_the_form_shows(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]float64{"10": 10, "10000": 10000, "12.5": 12.5, "12,5": 12.5, "0.1250": 0.125,
		"-1": -1, "10.000": 0, "1,500": 0, "1_000": 0, "1e3": 0, "inf": 0, "": 0, "1.000,5": 0, ".5": 0} {
		if n, fault := readDecimal(text); n != want || (fault != "") != (want == 0) {
			t.Errorf("%q is read as %v: %s", text, n, fault)
		}
	}
	for _, v := range []float64{0.125, 10, 12.5, 166.667, 1000.125, 10000, 1e6, 1.0 / 3} {
		if n, fault := readDecimal(exact(v)); n != v || fault != "" {
			t.Errorf("%v is shown as %s and read as %v: %s", v, exact(v), n, fault)
		}
	}
}

func TestPages_say_when_to_come_back(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	busy := errs.NewUnavailable("No.", 3*time.Second, nil)
	g.GET("/console", g.Page(View{read: func(context.Context, query) (any, error) { return nil, busy }}))
	g.POST("/console", g.Act(func(*gin.Context) error { return busy }))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		w := httptest.NewRecorder()
		g.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/console", nil))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "3" {
			t.Errorf("%s: %d, %v", method, w.Code, w.Header())
		}
	}
}
