package acceptance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

func reestimate(t *testing.T, s *apptest.Supplier, id int64) apptest.Answer {
	t.Helper()
	return s.Do(t, http.MethodPost, requestPath(id)+"/re-estimate", nil)
}

func reestimateRules(t *testing.T, h *apptest.Hub) {
	rule(t, "fresh estimates have new ids and a new webhook", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		id := submit(t, s, nil)
		first := becomes(t, s, id, "estimated").Estimates
		wantBody(t, reestimate(t, s, id), http.StatusAccepted, object{"status": "enqueued", "id": id})
		second := becomes(t, s, id, "estimated").Estimates
		if first[0]["estimate_id"] == second[0]["estimate_id"] || first[0]["price_cents"] != second[0]["price_cents"] {
			t.Errorf("first %v, then %v", first[0], second[0])
		}
		wait.Until(t, "the receiver is called again", func() bool { return len(receiver.Calls()) >= 2 })
		want(t, selectEstimate(t, s, id, first[0]["estimate_id"]), 422)
		want(t, selectEstimate(t, s, id, second[0]["estimate_id"]), 200)
	})
	rule(t, "409 after a selection, 404 for another's or an unknown request, 403 without the scope", func(t *testing.T) {
		s := h.Supplier(t)
		id := submit(t, s, nil)
		want(t, selectEstimate(t, s, id, becomes(t, s, id, "estimated").Estimates[0]["estimate_id"]), 200)
		wantProblem(t, reestimate(t, s, id), 409)
		wantProblem(t, reestimate(t, h.Supplier(t), id), 404)
		wantProblem(t, reestimate(t, s, nextID()), 404)
		wantEmpty(t, reestimate(t, h.Supplier(t, "--scopes", "products"), id), 403)
	})
}

func waitRules(t *testing.T, h *apptest.Hub) {
	rule(t, "wait answers as soon as the request is not enqueued any more, whichever process changed it",
		func(t *testing.T) {
			s := h.Supplier(t)
			for i := range 4 {
				id := submit(t, s, nil)
				a := h.DoAt(t, i, http.MethodGet, requestPath(id)+"?wait=30s", nil, "Authorization", "Bearer "+s.AccessToken())
				want(t, a, 200)
				if got := apptest.Decode[record](t, a); got.Status != "estimated" {
					t.Errorf("api %d: %s", i, got.Status)
				}
			}
		})
	rule(t, "400 for a wait that is no duration of at most 60s", func(t *testing.T) {
		s := h.Supplier(t)
		id := submit(t, s, nil)
		for _, wait := range []string{"61s", "-1s", "soon", "5", "", "1s&wait=2s"} {
			wantProblem(t, s.Do(t, http.MethodGet, requestPath(id)+"?wait="+wait, nil), 400, "wait")
		}
		wantProblem(t, s.Do(t, http.MethodGet, requestPath(nextID())+"?wait=30s", nil), 404)
	})
}

// ratedService is a service of the rate card as the commands print it.
type ratedService struct {
	Service       string  `json:"service"`
	Carrier       string  `json:"carrier"`
	PricePerKg    int64   `json:"price_per_kg_cents"`
	TransitDays   int     `json:"transit_days"`
	EffectiveFrom string  `json:"effective_from"`
	MinimumCents  int64   `json:"minimum_cents"`
	LargestSideCm float64 `json:"max_side_cm"`
}

// TestRateCard changes the card of a service of its own: it is everybody's.
func TestRateCard(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			s := h.Supplier(t)
			estimates := func() map[string]object {
				found := make(map[string]object)
				for _, e := range becomes(t, s, submit(t, s, nil), "estimated").Estimates {
					found[e["service"].(string)] = e
				}
				return found
			}
			before := estimates()
			services := make(map[string]ratedService)
			for _, r := range apptest.MustCommand[[]ratedService](t, h, "rate", "list") {
				services[r.Service] = r
			}
			for _, name := range []string{"road", "express", "bulky"} {
				if _, known := services[name]; !known {
					t.Fatalf("the first card lacks %s: %v", name, services)
				}
			}

			apptest.MustCommand[object](t, h, "rate", "set", "drone", "--carrier", "Beija-Flor", "--base-cents", "1000",
				"--per-kg-cents", "10",
				"--minimum-cents", "1500", "--cubage", "300", "--max-side", "500", "--max-weight", "1000", "--transit-days", "1")
			wait.Until(t, "a new service is estimated with no restart",
				func() bool { return estimates()["drone"] != nil })
			if got := estimates()["drone"]["price_cents"]; got.(float64) < 1500 {
				t.Errorf("below its minimum: %v", got)
			}
			tomorrow := time.Now().Add(48 * time.Hour).Format(time.DateOnly)
			apptest.MustCommand[object](t, h, "rate", "set", "road", "--base-cents", "999999", "--from", tomorrow)
			apptest.MustCommand[object](t, h, "rate", "remove", "drone")
			var after map[string]object
			wait.Until(t, "a removed service is not estimated any more",
				func() bool { after = estimates(); return after["drone"] == nil })
			if fmt.Sprint(after["road"]["price_cents"]) != fmt.Sprint(before["road"]["price_cents"]) {
				t.Errorf("a price of %s counts today: %v, before %v", tomorrow, after["road"]["price_cents"],
					before["road"]["price_cents"])
			}
			for _, bad := range [][]string{
				{"rate", "set", "drone", "--base-cents", "-1"}, {"rate", "set", "drone", "--carrier", "x"},
				{"rate", "set", "Bad Name"},
				{"rate", "remove", "unknown"}, {"rate", "set"}, {"rate", "remove"},
			} {
				if _, errOut, code := h.Command(t, bad...); code == 0 || errOut == "" {
					t.Errorf("api %v: exit code %d, %q", bad, code, errOut)
				}
			}
			for name := range services {
				if name != "road" {
					apptest.MustCommand[object](t, h, "rate", "remove", name)
				}
			}
			if _, errOut, code := h.Command(t, "rate", "remove", "road"); code != 1 || errOut == "" {
				t.Errorf("the last service was removed: exit code %d, %q", code, errOut)
			}
		})
	}
}
