package materials

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

func TestSubject_is_read_back(t *testing.T) {
	t.Parallel()
	for _, key := range []requestKey{{"acme", 1}, {"sup_01-x", -9223372036854775808}, {"é", 0}} {
		if got, ok := parseSubject(Subject(key.SupplierID, key.ID)); !ok || got != key {
			t.Errorf("%v became %v, %t", key, got, ok)
		}
	}
}

// recorder keeps the last message that was published.
type recorder struct{ last Work }

func (r *recorder) Publish(subject string, body []byte) { r.last = Work{Subject: subject, Body: body} }

func (r *recorder) Oldest(context.Context) (time.Time, bool) { return time.Time{}, false }

func TestPublish_names_all_requests_in_one_message(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		keys []requestKey
		want Work
	}{
		{nil, Work{}},
		{[]requestKey{{"acme", -1}}, Work{Subject: "mr.acme.-1"}},
		{[]requestKey{{"acme", 1}, {"acme", 2}, {"é", 1}}, Work{Subject: "mr.acme.1.3", Body: []byte("mr.acme.1\nmr.acme.2\nmr.é.1\n")}},
	} {
		var sent recorder
		(&Service{deps: Deps{Publisher: &sent}}).publish(tt.keys...)
		if diff := cmp.Diff(tt.want, sent.last); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tt.keys, diff)
		}
		if got, ok := sent.last.keys(); len(tt.keys) > 0 && (!ok || !slices.Equal(got, tt.keys)) {
			t.Errorf("%v became %v, %t", tt.keys, got, ok)
		}
	}
}

// FuzzWork: what is read as a message is what would be written for its requests.
func FuzzWork(f *testing.F) {
	f.Add("mr.acme.1", []byte(nil))
	f.Add("mr.acme.1.2", []byte("mr.acme.1\nmr.acme.2\n"))
	f.Add("", []byte("mr.acme.1\n\n"))
	f.Add("mr.acme.1.2", []byte("mr.acme.1\r\nmr.acme.2"))
	f.Fuzz(func(t *testing.T, subject string, body []byte) {
		keys, ok := Work{Subject: subject, Body: body}.keys()
		if !ok {
			return
		}
		var sent recorder
		(&Service{deps: Deps{Publisher: &sent}}).publish(keys...)
		if again, ok := sent.last.keys(); !ok || !slices.Equal(again, keys) {
			t.Fatalf("%q became %v and then %v, %t", body, keys, again, ok)
		}
	})
}

// FuzzEvent: an event that is accepted holds to the rules and, sent again as the service would send it, is the same event.
func FuzzEvent(f *testing.F) {
	whole := `{"type":"material_request.estimated","timestamp":"2026-11-20T12:00:00Z","data":{"supplier_id":"acme","request_id":1,
		"shop_code":"s","estimates":[{"estimate_id":"e1","service":"road","carrier":"c","price_cents":12345,"currency":"BRL",
		"lead_time_days":5,"dispatch_date":"2026-11-23","delivery_date":"2026-11-27","chargeable_weight_kg":12.5,"volume_m3":0.075,
		"valid_until":"2026-11-27T12:00:00.123456789-03:00"}],"unavailable":[{"service":"express","reason":"too heavy"}]}}`
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
		if event.Type != webhook.TypeEstimated || event.Data.RequestID != 1 || strings.TrimSpace(event.Data.SupplierID) == "" {
			t.Fatalf("accepted %+v", event)
		}
		for _, e := range event.Data.Estimates {
			if e.EstimateID == "" || e.PriceCents < 0 || e.LeadTimeDays < 0 || e.VolumeM3 < 0 || e.DeliveryDate < e.DispatchDate {
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
