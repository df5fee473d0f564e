package materials

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// FuzzEvent: an event that is accepted holds to the rules and, sent again as the service would send it, is the same
// event.
func FuzzEvent(f *testing.F) {
	whole := `{"type":"material_request.estimated","timestamp":"2026-11-20T12:00:00Z",
		"data":{"supplier_id":"acme","request_id":1,"shop_code":"s",
		"estimates":[{"estimate_id":"e1","service":"road","carrier":"c","price_cents":12345,"currency":"BRL",
		"lead_time_days":5,"dispatch_date":"2026-11-23","delivery_date":"2026-11-27",
		"chargeable_weight_kg":12.5,"volume_m3":0.075,"valid_until":"2026-11-27T12:00:00.123456789-03:00"}],
		"unavailable":[{"service":"express","reason":"too heavy"}]}}`
	f.Add([]byte(whole))
	f.Add([]byte(strings.Replace(whole, "12.5", "1e308", 1)))
	f.Add([]byte(strings.Replace(whole, "2026-11-20T12:00:00Z", "9999-12-31T23:59:59-14:00", 1)))
	f.Add([]byte(strings.Replace(whole, "2026-11-20T12:00:00Z", "0000-01-01T00:00:00+14:00", 1)))
	f.Add([]byte(strings.Replace(whole, `"acme"`, `"\ud800"`, 1)))
	f.Add([]byte(`{"data":{"estimates":[{},null],"unavailable":[[]]}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		event, ok := decodeEvent(raw)
		if !ok {
			return
		}
		if event.Type != webhook.TypeEstimated || event.Data.RequestID != 1 ||
			strings.TrimSpace(event.Data.SupplierID) == "" {
			t.Fatalf("accepted %+v", event)
		}
		for _, e := range event.Data.Estimates {
			if e.EstimateID == "" || e.PriceCents < 0 || e.LeadTimeDays < 0 || e.VolumeM3 < 0 ||
				e.DeliveryDate < e.DispatchDate {
				t.Fatalf("accepted %+v", e)
			}
		}
		sent, err := json.Marshal(event)
		if err != nil {
			t.Fatalf("cannot be sent: %v", err)
		}
		again, ok := decodeEvent(sent)
		if diff := cmp.Diff(event, again, cmpopts.EquateApproxTime(time.Duration(0))); !ok || diff != "" {
			t.Fatalf("accepted again: %t (-first +again):\n%s", ok, diff)
		}
	})
}

func decodeEvent(raw []byte) (webhook.Event, bool) {
	body, violations := httpapi.Decode[eventBody](raw)
	if body == nil || len(violations) > 0 {
		return webhook.Event{}, false
	}
	event, violations := body.event(1)
	return event, len(violations) == 0
}
