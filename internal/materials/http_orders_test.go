package materials_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestOrders_are_the_requests_with_a_selected_estimate_newest_first(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for i := range int64(7) {
			supplier := []string{"acme", "other"}[i%2]
			p.enqueue(supplier, i)
			expect(t, p.deliver("msg_1", event(supplier, i, noon, "e1", "e2")), 200)
			if i == 3 {
				continue // stays estimated
			}
			p.now.Store(noon.Add(time.Duration((i*3)%7) * time.Second).UnixMicro())
			expect(t, p.choose(supplier, i, "e2"), 200)
		}
		var got []string
		for next, limit := "", 4; limit > 0; limit-- {
			answer := p.orders(fmt.Sprintf("?limit=%d%s", limit, next))
			for _, o := range answer.Data {
				got = append(got, fmt.Sprintf("%s/%d %s", o.SupplierID, o.ID, o.SelectedAt.Format("05")))
			}
			if answer.Next == nil {
				break
			}
			next = "&cursor=" + *answer.Next
		}
		want := []string{"acme/2 06", "acme/4 05", "acme/6 04", "other/5 01", "other/1 03", "acme/0 00"}
		want[3], want[4] = want[4], want[3]
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("orders (-want +got):\n%s", diff)
		}
	})
}

func TestOrders_shows_the_request_and_what_was_selected(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		expect(t, p.call(http.MethodGet, "/orders", ""), 200, `{"next_cursor":null,"data":[]}`)
		p.enqueue("acme", 1)
		expect(t, p.deliver("msg_1", event("acme", 1, noon, "e1")), 200)
		expect(t, p.choose("acme", 1, "e1"), 200)
		var answer struct{ Data []map[string]any }
		if err := json.Unmarshal(p.call(http.MethodGet, "/orders", "").Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		item := answer.Data[0]
		estimate := item["selected_estimate"].(map[string]any)
		for name, want := range map[string]any{
			"supplier_id": "acme", "id": 1.0, "shop_code": "shop-1", "status": "selected", "selected_estimate_id": "e1",
			"selected_at": "2026-11-20T12:00:00Z", "created_at": "2026-11-20T12:00:00Z", "updated_at": "2026-11-20T12:00:00Z",
		} {
			if item[name] != want {
				t.Errorf("%s is %v, want %v", name, item[name], want)
			}
		}
		if estimate["estimate_id"] != "e1" || estimate["price_cents"] != 12345.0 {
			t.Errorf("the selected estimate is %v", estimate)
		}
		for name, want := range map[string]int{"materials": 2, "estimates": 1, "unavailable": 1} {
			if list, _ := item[name].([]any); len(list) != want {
				t.Errorf("%s is %v, want %d items", name, item[name], want)
			}
		}
		for _, name := range []string{"trace_id", "TraceID", "digest", "round", "uid"} {
			if _, shown := item[name]; shown {
				t.Errorf("%s is shown", name)
			}
		}
	})
}

func TestOrders_of_bad_parameters(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for _, query := range []string{"?limit=0", "?limit=x", "?limit=101", "?limit=1&limit=1", "?limit=%zz", "?limit=",
			"?cursor=", "?cursor=x", "?cursor=x&cursor=x"} {
			if got := p.call(http.MethodGet, "/orders"+query, "").Code; got != 400 {
				t.Errorf("%s: %d, want 400", query, got)
			}
		}
	})
}

type ordersAnswer struct {
	Next *string `json:"next_cursor"`
	Data []struct {
		SupplierID string    `json:"supplier_id"`
		ID         int64     `json:"id"`
		SelectedAt time.Time `json:"selected_at"`
	}
}

func (p *pipeline) orders(query string) ordersAnswer {
	p.t.Helper()
	w := p.call(http.MethodGet, "/orders"+query, "")
	var answer ordersAnswer
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || w.Code != 200 {
		p.t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	return answer
}
