package acceptance

import (
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

func selectEstimate(t *testing.T, s *apptest.Supplier, id int64, estimate any) apptest.Answer {
	t.Helper()
	return s.Do(t, http.MethodPatch, requestPath(id)+"/selected-estimate", object{"estimate_id": estimate})
}

func selectionRules(t *testing.T, h *apptest.Hub) {
	rule(t, "an estimate is selected, the same choice again is unchanged, another is 409", func(t *testing.T) {
		s := h.Supplier(t)
		id := submit(t, s, nil)
		estimates := becomes(t, s, id, "estimated").Estimates
		a := selectEstimate(t, s, id, estimates[0]["estimate_id"])
		want(t, a, 200)
		first := apptest.Decode[object](t, a)
		if first["status"] != "selected" || first["id"] != float64(id) ||
			first["estimate_id"] != estimates[0]["estimate_id"] {
			t.Fatalf("got %v", first)
		}
		wantBody(t, selectEstimate(t, s, id, estimates[0]["estimate_id"]), 200, first)
		wantProblem(t, selectEstimate(t, s, id, estimates[1]["estimate_id"]), 409)
		if r := read(t, s, id); r.Status != "selected" || *r.SelectedEstimateID != estimates[0]["estimate_id"] {
			t.Fatalf("got %+v", r)
		}
	})
	rule(t, "400 for a bad body, 404 for an unknown request, 422 for a foreign estimate", func(t *testing.T) {
		s := h.Supplier(t)
		id := submit(t, s, nil)
		becomes(t, s, id, "estimated")
		path := requestPath(id) + "/selected-estimate"
		wantProblem(t, s.Do(t, http.MethodPatch, path, object{}), 400, "/estimate_id")
		wantProblem(t, s.Do(t, http.MethodPatch, path, object{"estimate_id": 5}), 400, "/estimate_id")
		wantProblem(t, selectEstimate(t, s, id+1000000, "x"), 404)
		wantProblem(t, selectEstimate(t, h.Supplier(t), id, "x"), 404)
		wantProblem(t, selectEstimate(t, s, id, "nonsense"), 422, "/estimate_id")
	})
	rule(t, "an estimate past valid_until is 422", func(t *testing.T) {
		s := h.Supplier(t, "--scopes", "material-requests,estimates:write")
		id := submit(t, s, nil)
		becomes(t, s, id, "estimated")
		e := event(s, id, time.Now().Add(time.Second), "stale")
		e.Data.Estimates[0].ValidUntil = time.Now().Add(-time.Minute).UTC()
		want(t, s.Do(t, http.MethodPost, estimatesPath(id), e), 200)
		wantProblem(t, selectEstimate(t, s, id, "stale"), 422, "/estimate_id")
	})
	rule(t, "of concurrent different choices exactly one wins", func(t *testing.T) {
		s := h.Supplier(t)
		id := submit(t, s, nil)
		estimates := becomes(t, s, id, "estimated").Estimates
		statuses := make([]int, 10)
		together(len(statuses), func(i int) {
			statuses[i] = h.DoAt(t, i/2, http.MethodPatch, requestPath(id)+"/selected-estimate",
				object{"estimate_id": estimates[i%2]["estimate_id"]},
				"Authorization", "Bearer "+s.AccessToken()).Status
		})
		won := [2]int{}
		for i, status := range statuses {
			if status == 200 {
				won[i%2]++
			} else if status != 409 {
				t.Errorf("status %d", status)
			}
		}
		if (won[0] == 0) == (won[1] == 0) || won[0]+won[1] != 5 {
			t.Fatalf("the two choices were answered 200 %d and %d times", won[0], won[1])
		}
	})
	rule(t, "GET /orders lists selected requests of all suppliers, newest first", func(t *testing.T) {
		reader := h.Supplier(t, "--scopes", "orders:read")
		a, b := h.Supplier(t), h.Supplier(t)
		for _, s := range []*apptest.Supplier{a, b} {
			id := submit(t, s, nil)
			want(t, selectEstimate(t, s, id, becomes(t, s, id, "estimated").Estimates[0]["estimate_id"]), 200)
		}
		var order []string
		for path := "/orders?limit=1"; ; {
			answer := reader.Do(t, http.MethodGet, path, nil)
			want(t, answer, 200)
			page := apptest.Decode[struct {
				Data []struct {
					SupplierID string `json:"supplier_id"`
				}
				Next string `json:"next_cursor"`
			}](t, answer)
			for _, o := range page.Data {
				if o.SupplierID == a.ID || o.SupplierID == b.ID {
					order = append(order, o.SupplierID)
				}
			}
			if page.Next == "" {
				break
			}
			path = "/orders?limit=100&cursor=" + page.Next
		}
		if len(order) != 2 || order[0] != b.ID || order[1] != a.ID {
			t.Fatalf("got %v, want %v", order, []string{b.ID, a.ID})
		}
	})
}

func product(changes object) object {
	return with(object{"sku": "P", "material_id": 1, "material": "Pine", "weight_kg": 2.5, "production_days": 3}, changes)
}

// syncProduct sends one product synchronisation and fails unless it answers the status.
func syncProduct(t *testing.T, s *apptest.Supplier, body object, status string) {
	t.Helper()
	a := s.Do(t, http.MethodPost, "/api/products/sync", body)
	wantBody(t, a, 200, object{"sku": body["product"].(object)["sku"], "status": status})
}

func productRules(t *testing.T, h *apptest.Hub) {
	rule(t, "created, unchanged, updated, deactivated, activated again", func(t *testing.T) {
		s := h.Supplier(t)
		upsert := func(changes object) object { return object{"action": "upsert", "product": product(changes)} }
		syncProduct(t, s, upsert(nil), "created")
		syncProduct(t, s, upsert(nil), "unchanged")
		syncProduct(t, s, upsert(object{"weight_kg": 3}), "updated")
		syncProduct(t, s, object{"action": "deactivate", "product": object{"sku": "P"}}, "deactivated")
		syncProduct(t, s, upsert(object{"weight_kg": 3}), "updated")
	})
	rule(t, "an older updated_at is stale and changes nothing", func(t *testing.T) {
		s := h.Supplier(t)
		syncProduct(t, s, object{"action": "upsert", "updated_at": "2026-01-02T00:00:00Z", "product": product(nil)},
			"created")
		syncProduct(t, s, object{"action": "upsert", "updated_at": "2026-01-01T00:00:00Z",
			"product": product(object{"weight_kg": 9})}, "stale")
		syncProduct(t, s, object{"action": "deactivate", "updated_at": "2026-01-01T21:00:00-03:00",
			"product": object{"sku": "P"}}, "deactivated")
	})
	rule(t, "deactivating an unknown sku is 404; catalogues are per supplier", func(t *testing.T) {
		s := h.Supplier(t)
		syncProduct(t, s, object{"action": "upsert", "product": product(nil)}, "created")
		wantProblem(t, h.Supplier(t).Do(t, http.MethodPost, "/api/products/sync",
			object{"action": "deactivate", "product": object{"sku": "P"}}), 404)
	})
	rule(t, "400 names every violation; the scope is products", func(t *testing.T) {
		s := h.Supplier(t)
		wantProblem(t, s.Do(t, http.MethodPost, "/api/products/sync",
			object{"action": "x", "updated_at": "yesterday", "product": object{"weight_kg": -1}}), 400,
			"/action", "/updated_at", "/product/sku", "/product/weight_kg")
		wantProblem(t, s.Do(t, http.MethodPost, "/api/products/sync",
			object{"action": "upsert", "product": object{"sku": "P"}}), 400, "/product/material_id", "/product/material")
		wantEmpty(t, h.Supplier(t, "--scopes", "material-requests").Do(t, http.MethodPost, "/api/products/sync", "{"), 403)
	})
	rule(t, "a heavier product costs more", func(t *testing.T) {
		s := h.Supplier(t)
		price := func(weight float64) float64 {
			t.Helper()
			syncProduct(t, s, object{"action": "upsert",
				"product": product(object{"sku": fmt.Sprint(weight), "weight_kg": weight})}, "created")
			r := becomes(t, s, submit(t, s, object{"materials": []object{item(object{"sku": fmt.Sprint(weight)})}}), "estimated")
			for _, e := range r.Estimates {
				if e["service"] == "bulky" {
					return e["price_cents"].(float64)
				}
			}
			t.Fatalf("no bulky estimate in %+v", r)
			return 0
		}
		if light, heavy := price(100), price(1000); light >= heavy {
			t.Fatalf("100 kg cost %v, 1000 kg cost %v", light, heavy)
		}
	})
}
