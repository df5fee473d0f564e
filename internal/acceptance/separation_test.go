package acceptance

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// operation is one of the OpenAPI document, which is walked whole so that a new route cannot be forgotten.
type operation struct {
	method, path, id string
	takesBody        bool
}

func operations(t *testing.T, h *apptest.Hub) []operation {
	t.Helper()
	document := apptest.Decode[struct {
		Paths map[string]map[string]any
	}](t, h.Do(t, http.MethodGet, "/openapi.json", nil))
	var list []operation
	for path, item := range document.Paths {
		for method, content := range item {
			op, ok := content.(object)
			if !ok { // parameters of the whole path
				continue
			}
			id, _ := op["operationId"].(string)
			list = append(list, operation{strings.ToUpper(method), path, id, op["requestBody"] != nil})
		}
	}
	if len(list) < 15 {
		t.Fatalf("the document has only %d operations", len(list))
	}
	// Calls that make a request of the attacker's own come last.
	last := func(op operation) bool { return op.id == "createMaterialRequest" }
	return append(slices.DeleteFunc(slices.Clone(list), last), list[slices.IndexFunc(list, last)])
}

// TestSuppliers_and_tracker_clients_never_see_or_change_each_others_data tries every operation of the document with the
// credentials of one and all that it may know of the other: ids, names, bodies.
func TestSuppliers_and_tracker_clients_never_see_or_change_each_others_data(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			mark := "victim-" + strings.ToLower(rand.Text())
			victim, attacker := h.Supplier(t), h.Supplier(t, "--scopes", "material-requests,products,estimates:write")
			syncProduct(t, victim, object{"action": "upsert", "product": product(object{"sku": "SHELF-90", "material": mark})},
				"created")
			open := submit(t, victim, object{"comment": mark})
			chosen := submit(t, victim, object{"comment": mark})
			becomes(t, victim, open, "estimated")
			estimate := becomes(t, victim, chosen, "estimated").Estimates[0]["estimate_id"]
			want(t, selectEstimate(t, victim, chosen, estimate), http.StatusOK)
			watched, watcher := newTrackerClient(t, h), newTrackerClient(t, h)
			watched.load(t, object{"imei": 356938035643809, "dt_carga": "2026-11-20", "data_de_ping": "2026-11-20",
				"dispositivo": mark})
			watcher.load(t)
			state := func() string {
				var text strings.Builder
				for _, path := range []string{requests, requestPath(open), requestPath(chosen)} {
					a := victim.Do(t, http.MethodGet, path, nil)
					want(t, a, http.StatusOK)
					text.Write(a.Body)
				}
				text.Write(watched.get(t, trackers).Body)
				return text.String()
			}
			before := state()
			if strings.Count(before, mark) < 3 {
				t.Fatalf("the victim's own data lacks its mark: %s", before)
			}
			now := time.Now().Add(time.Minute)
			forged := event(victim, open, now, "forged")
			bodies := map[string]any{
				"createMaterialRequest":    request(open, nil),
				"receiveDeliveryEstimates": forged,
				"selectEstimate":           object{"estimate_id": estimate},
				"syncProduct":              object{"action": "deactivate", "product": object{"sku": "SHELF-90"}},
				"refreshToken":             object{"refreshToken": attacker.RefreshToken()},
				"revokeToken":              object{"refreshToken": attacker.APIKey},
				"showScoreboard":           object{},
				"setReceiver":              object{"url": "http://127.0.0.1:9/x"},
				"recoverDeliveries":        object{"status": "dead", "since": "2026-01-01T00:00:00Z"},
				"rotateSecret":             object{"overlap": "24h"},
			}
			for _, op := range operations(t, h) {
				body, known := bodies[op.id]
				if op.takesBody && !known {
					t.Errorf("%s: this test has no body for it", op.id)
				}
				headers := []string{"svc-public-hub-key", watcher.APIKey, "X-Api-Key", attacker.APIKey, "X-Supplier-Id", victim.ID}
				// signed by the attacker's own secret it is refused, by its token it is not its request
				if op.id == "receiveDeliveryEstimates" {
					signed := append(headers, sign(t, "forged", now, forged, secret(t, attacker.WebhookSecret))...)
					wantEmpty(t, h.Do(t, op.method, requestPath(open)+"/delivery-estimates", forged, signed...),
						http.StatusUnauthorized)
				}
				for _, id := range []int64{open, chosen} {
					path := strings.NewReplacer("{id}", fmt.Sprint(id), "{file}", "index.html").Replace(op.path)
					for _, query := range []string{"", fmt.Sprintf("?supplier_id=%s&supplierId=%s&client=%s&id=%d", victim.ID,
						victim.ID, watched.ID, id)} {
						a := attacker.Do(t, op.method, path+query, body, headers...)
						if strings.Contains(string(a.Body), mark) || strings.Contains(string(a.Body), fmt.Sprint(estimate)) ||
							strings.Contains(string(a.Body), victim.ID) {
							t.Errorf("%s %s: %d shows the victim's data: %s", op.method, path+query, a.Status, a.Body)
						}
						if strings.Contains(op.path, "{id}") && a.Status < 400 {
							t.Errorf("%s %s: %d, though the attacker has no request", op.method, path, a.Status)
						}
					}
				}
			}
			if after := state(); after != before {
				t.Errorf("the victim's data has changed from\n%s\nto\n%s", before, after)
			}
		})
	}
}
