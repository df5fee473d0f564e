package acceptance

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

func materialRules(t *testing.T, h *apptest.Hub) {
	rule(t, "a valid request is 201 with status enqueued and its id, and becomes estimated", func(t *testing.T) {
		s := h.Supplier(t)
		id := submit(t, s, nil)
		r := becomes(t, s, id, "estimated")
		if len(r.Estimates) == 0 || r.SelectedEstimateID != nil {
			t.Fatalf("got %+v", r)
		}
	})
	rule(t, "GET shows the request's fields", func(t *testing.T) {
		s := h.Supplier(t)
		id := submit(t, s, object{"comment": "leave at the gate",
			"materials": []object{item(object{"material_variant_id": 3, "material_variant": "oak"})}})
		body := apptest.Decode[object](t, s.Do(t, http.MethodGet, requestPath(id), nil))
		first := body["materials"].([]any)[0].(object)
		if body["id"] != float64(id) || body["shop_code"] != "SP-001" || body["comment"] != "leave at the gate" ||
			first["material_variant_id"] != float64(3) || first["width"] != 90.5 || first["quantity"] != float64(4) {
			t.Fatalf("got %v", body)
		}
		for _, name := range []string{"created_at", "updated_at"} {
			if _, err := time.Parse(time.RFC3339, fmt.Sprint(body[name])); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
	rule(t, "zero values are present, unknown members are ignored", func(t *testing.T) {
		s := h.Supplier(t)
		submit(t, s, object{"status": "selected", "supplier_id": "x",
			"materials": []object{item(object{"material_id": 0, "width": 0, "height": 0, "depth": 0, "unknown": []int{1}})}})
	})
	rule(t, "every violation is named", func(t *testing.T) {
		s := h.Supplier(t)
		wantProblem(t, s.Do(t, http.MethodPost, requests, object{}), 400, "/id", "/shop_code", "/materials")
		wantProblem(t, s.Do(t, http.MethodPost, requests,
			object{"id": "1", "shop_code": " ", "comment": 5, "materials": []any{
				object{}, 7, item(object{"quantity": 0, "width": -1, "sku": strings.Repeat("é", 256), "depth": 1000001}),
				item(object{"material_id": 1.5, "quantity": 2147483648}),
			}}), 400, "/id", "/shop_code", "/comment", "/materials/0/material_id", "/materials/0/material", "/materials/0/sku",
			"/materials/0/width",
			"/materials/0/height", "/materials/0/quantity", "/materials/1", "/materials/2/quantity", "/materials/2/width",
			"/materials/2/sku", "/materials/2/depth",
			"/materials/3/material_id", "/materials/3/quantity")
	})
	invalid := map[string]struct {
		body   string
		places []string
	}{
		"no item": {`{"id":1,"shop_code":"a","materials":[]}`, []string{"/materials"}},
		"an id outside int64": {`{"id":9223372036854775808,"shop_code":"a",
			"materials":[{"material_id":1,"material":"m","sku":"s","width":1,"height":1,"quantity":1}]}`, []string{"/id"}},
		"a number that is not finite": {`{"id":1,"shop_code":"a",
			"materials":[{"material_id":1,"material":"m","sku":"s","width":1e400,"height":1,"quantity":1}]}`,
			[]string{"/materials/0/width"}},
		"half of a surrogate pair before other faults": {`{"shop_code":"\ud800","id":"x","materials":[]}`,
			[]string{"/id", "/shop_code", "/materials"}},
		"an array at the top": {`[]`, []string{""}},
		"null at the top":     {`null`, []string{""}},
	}
	for name, c := range invalid {
		rule(t, "400: "+name, func(t *testing.T) {
			wantProblem(t, h.Supplier(t).Do(t, http.MethodPost, requests, c.body), 400, c.places...)
		})
	}
	rule(t, "400: text that is not strict JSON", func(t *testing.T) {
		s := h.Supplier(t)
		for _, body := range []string{"", "{", `{"id":1} x`, `{"id":1,"id":1}`, "{\"shop_code\":\"\xff\"}",
			`{"shop_code":"\ud800"}`, `{"shop_code":"a\u0000b"}`, strings.Repeat("[", 20000)} {
			a := s.Do(t, http.MethodPost, requests, body)
			want(t, a, 400)
			if len(apptest.Decode[problem](t, a).Errors) == 0 {
				t.Errorf("no violation named for %.40q: %s", body, a.Body)
			}
		}
	})
	rule(t, "413 over 1 MiB, 415 for another content type or encoding, none is read as JSON", func(t *testing.T) {
		s := h.Supplier(t)
		big := request(nextID(), object{"comment": strings.Repeat("x", 1<<20)})
		wantProblem(t, s.Do(t, http.MethodPost, requests, big), 413)
		wantProblem(t, s.Do(t, http.MethodPost, requests, request(nextID(), nil), "Content-Type", "text/plain"), 415)
		wantProblem(t, s.Do(t, http.MethodPost, requests, request(nextID(), nil), "Content-Encoding", "gzip"), 415)
		want(t, s.Do(t, http.MethodPost, requests, request(nextID(), nil), "Content-Type", ""), 201)
		want(t, s.Do(t, http.MethodPost, requests, request(nextID(), nil), "Content-Type",
			"Application/JSON; charset=UTF-8"), 201)
	})
	rule(t, "413 over 1 MiB at routes without a body too, after authentication and permission", func(t *testing.T) {
		s, id := h.Supplier(t), nextID()
		huge := strings.Repeat(" ", 1<<20+1)
		for path, method := range map[string]string{requestPath(id) + "/re-estimate": http.MethodPost,
			portalSessions: http.MethodPost, ping: http.MethodGet, requests: http.MethodGet, deliveriesPath: http.MethodGet,
			"/api/webhook-receiver": http.MethodDelete} {
			wantProblem(t, s.Do(t, method, path, huge), 413)
			wantEmpty(t, h.Do(t, method, path, huge), 401)
		}
		wantEmpty(t, s.Do(t, http.MethodGet, "/orders", huge), 403)
		for path, c := range map[string]struct {
			body   string
			status int
		}{
			"/api/webhook-receiver/pause": {huge, 413}, portalSessions: {huge, 413},
			"/api/webhook-receiver/rotate-secret": {"", 200}, // its length is not announced: none at all is none
		} {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL(0, path), struct{ io.Reader }{
				strings.NewReader(c.body)})
			if err != nil {
				t.Fatal(err)
			}
			request.Header.Set("Authorization", "Bearer "+s.AccessToken())
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if answer.StatusCode != c.status {
				t.Errorf("%s in chunks: %d, want %d", path, answer.StatusCode, c.status)
			}
		}
	})
	rule(t, "an integer is a whole number however it is written, and utf8 is UTF-8", func(t *testing.T) {
		s := h.Supplier(t)
		const largest = "9223372036854775807"
		for text, id := range map[string]string{"3.0": "3", "4e0": "4", "0.5E+1": "5", "-60e-1": "-6",
			largest + ".0":           largest,
			"922337203685477580.7e1": largest, "-9223372036854775808.00": "-9223372036854775808"} {
			a := s.Do(t, http.MethodPost, requests, rawRequest(text), "Content-Type", "application/json; charset=utf8")
			if want(t, a, 201); string(a.Body) != `{"status":"enqueued","id":`+id+`}` {
				t.Errorf("%s: %s", text, a.Body)
			}
			want(t, s.Do(t, http.MethodPost, requests, rawRequest(id), "Content-Type", `application/json; charset="UTF8"`), 201)
		}
		for _, text := range []string{"3.5", "1e-1", "9223372036854775807.5", "9223372036854775808.0", "1e19"} {
			wantProblem(t, s.Do(t, http.MethodPost, requests, rawRequest(text)), 400, "/id")
		}
	})
	rule(t, "a parameter that a list does not know is a 400 that names it and those that it knows", func(t *testing.T) {
		s := h.Supplier(t, "--scopes", "material-requests,webhooks,orders:read")
		for path, known := range map[string]string{requests: "limit, cursor, status", "/orders": "limit, cursor",
			"/api/webhook-deliveries": "limit, cursor, status, request_id, since, until"} {
			p := wantProblem(t, s.Do(t, http.MethodGet, path+"?state=x&Limit=3", nil), 400, "state", "Limit")
			if !strings.HasSuffix(p.Errors[0].Detail, known) {
				t.Errorf("%s: %q does not name %s", path, p.Errors[0].Detail, known)
			}
			p = wantProblem(t, s.Do(t, http.MethodGet, path+"?page=2&pageSize=5", nil), 400, "page", "pageSize")
			if d := p.Errors[0].Detail; !strings.Contains(d, "limit") || !strings.Contains(d, "cursor") {
				t.Errorf("%s: page is answered with %q", path, d)
			}
			want(t, s.Do(t, http.MethodGet, path+"?limit=3", nil), 200)
		}
	})
	rule(t, "duplicate items are 422 and each combination is listed once", func(t *testing.T) {
		s := h.Supplier(t)
		variant := item(object{"material_variant_id": 7, "sku": "B"})
		a := s.Do(t, http.MethodPost, requests, request(nextID(), object{"materials": []object{
			item(nil), item(object{"material_variant_id": nil, "quantity": 9}), variant, variant, variant,
			item(object{"sku": "C"}),
		}}))
		wantBody(t, a, 422, object{"message": "Duplicate material items are not allowed.", "duplicates": []object{
			{"materialId": 10, "materialVariantId": nil, "sku": "SHELF-90"},
			{"materialId": 10, "materialVariantId": 7, "sku": "B"},
		}})
	})
	rule(t, "401 before 403 before 400 before 422 before 409", func(t *testing.T) {
		s := h.Supplier(t)
		id := submit(t, s, nil)
		doubled := []object{item(nil), item(nil)}
		wantEmpty(t, h.Do(t, http.MethodPost, requests, "{"), 401)
		wantEmpty(t, h.Supplier(t, "--scopes", "products").Do(t, http.MethodPost, requests, "{"), 403)
		want(t, s.Do(t, http.MethodPost, requests, request(id, object{"shop_code": "", "materials": doubled})), 400)
		want(t, s.Do(t, http.MethodPost, requests, request(id, object{"materials": doubled})), 422)
		wantProblem(t, s.Do(t, http.MethodPost, requests, request(id, object{"shop_code": "other"})), 409)
	})
	rule(t, "an equal request again is 201 and not processed twice, whatever the order of members", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		id := submit(t, s, nil)
		becomes(t, s, id, "estimated")
		text := fmt.Sprintf(`{"materials":[{"quantity":4,"depth":25.0,"height":3e1,"width":90.5,"sku":"SHELF-90",
			"material":"Shelf","material_id":10,"material_variant":null}],"shop_code":"SP-001","id":%d}`, id)
		wantBody(t, s.Do(t, http.MethodPost, requests, text), 201, object{"status": "enqueued", "id": id})
		if r := read(t, s, id); r.Status != "estimated" {
			t.Fatalf("the retry moved the request to %s", r.Status)
		}
		wait.Until(t, "the receiver was called", func() bool { return len(receiver.Calls()) > 0 })
		submit(t, s, nil)
		wait.Until(t, "the next request is delivered", func() bool { return len(receiver.Calls()) >= 2 })
		for _, c := range receiver.Calls()[1:] {
			if c.Path == requestPath(id)+"/delivery-estimates" {
				t.Fatal("the equal request was delivered twice")
			}
		}
	})
	rule(t, "30 equal requests at once over all apis are 30 times 201 and one request", func(t *testing.T) {
		s := h.Supplier(t)
		id := nextID()
		answers := make([]apptest.Answer, 30)
		together(len(answers), func(i int) {
			answers[i] = h.DoAt(t, i, http.MethodPost, requests, request(id, nil), "Authorization", "Bearer "+s.AccessToken())
		})
		for _, a := range answers {
			want(t, a, 201)
		}
		if n := len(list(t, s, "").Data); n != 1 {
			t.Fatalf("%d requests, want 1", n)
		}
	})
	rule(t, "30 different requests with one id at once are one 201 and 29 times 409", func(t *testing.T) {
		s := h.Supplier(t)
		id := nextID()
		counts := make([]int, 30)
		together(len(counts), func(i int) {
			counts[i] = h.DoAt(t, i, http.MethodPost, requests, request(id, object{"comment": fmt.Sprint(i)}), "Authorization",
				"Bearer "+s.AccessToken()).Status
		})
		byStatus := map[int]int{}
		for _, status := range counts {
			byStatus[status]++
		}
		if byStatus[201] != 1 || byStatus[409] != 29 {
			t.Fatalf("got %v", byStatus)
		}
	})
	rule(t, "ids are unique per supplier and never seen by another", func(t *testing.T) {
		a, b := h.Supplier(t), h.Supplier(t)
		id := submit(t, a, nil)
		wantProblem(t, b.Do(t, http.MethodGet, requestPath(id), nil), 404)
		want(t, b.Do(t, http.MethodPost, requests, request(id, object{"comment": "mine"})), 201)
		want(t, a.Do(t, http.MethodPost, requests, request(id, nil)), 201)
	})
	rule(t, "an id is any int64", func(t *testing.T) {
		s := h.Supplier(t)
		for _, id := range []int64{0, -5, 9223372036854775807, -9223372036854775808} {
			want(t, s.Do(t, http.MethodPost, requests, request(id, nil)), 201)
			becomes(t, s, id, "estimated")
		}
		for _, bad := range []string{"01", "+1", "1.0", "x", "9223372036854775808", "-0"} {
			wantProblem(t, s.Do(t, http.MethodGet, requests+"/"+bad, nil), 404)
		}
	})
	rule(t, "an inactive product or an item that no service takes leaves no estimate but a reason for each service",
		func(t *testing.T) {
			s := h.Supplier(t)
			r := becomes(t, s, submit(t, s, object{"materials": []object{item(object{"width": 1000000, "height": 1000000,
				"depth": 1000000, "quantity": 2147483647})}}), "estimated")
			if len(r.Estimates) != 0 || len(r.Unavailable) < 3 || r.Unavailable[0]["reason"] == "" {
				t.Fatalf("got %+v", r)
			}
			syncProduct(t, s, object{"action": "upsert", "product": object{"sku": "GONE", "material_id": 1, "material": "x"}},
				"created")
			syncProduct(t, s, object{"action": "deactivate", "product": object{"sku": "GONE"}}, "deactivated")
			r = becomes(t, s, submit(t, s, object{"materials": []object{item(object{"sku": "GONE"})}}), "estimated")
			if len(r.Estimates) != 0 || len(r.Unavailable) < 3 {
				t.Fatalf("got %+v", r)
			}
		})
	rule(t, "500 items and 1 MiB are taken", func(t *testing.T) {
		s := h.Supplier(t)
		items := make([]object, 500)
		for i := range items {
			items[i] = item(object{"material_id": i, "material": strings.Repeat("m", 255)})
		}
		becomes(t, s, submit(t, s, object{"materials": items}), "estimated")
	})
}

type listing struct {
	Data []record
	Next string `json:"next_cursor"` // empty: null
}

func list(t *testing.T, s *apptest.Supplier, query string) listing {
	t.Helper()
	a := s.Do(t, http.MethodGet, requests+query, nil)
	want(t, a, 200)
	return apptest.Decode[listing](t, a)
}

// listAll follows the list from page to page to its end.
func listAll(t *testing.T, s *apptest.Supplier, query string) (all []record) {
	t.Helper()
	for cursor := ""; ; {
		page := list(t, s, "?limit=100"+query+cursor)
		if all = append(all, page.Data...); page.Next == "" {
			return all
		}
		cursor = "&cursor=" + page.Next
	}
}

func idsOf(records []record) []int64 {
	ids := make([]int64, len(records))
	for i, r := range records {
		ids[i] = r.ID
	}
	return ids
}

func listingRules(t *testing.T, h *apptest.Hub) {
	rule(t, "its own requests, newest first in the order of acceptance, follow next_cursor to null", func(t *testing.T) {
		s := h.Supplier(t)
		var ids []int64
		for range 5 {
			ids = append([]int64{submit(t, s, nil)}, ids...)
		}
		if all := list(t, s, ""); !slices.Equal(idsOf(all.Data), ids) || all.Next != "" {
			t.Fatalf("got %+v", all)
		}
		if all := list(t, s, "?limit=5"); !slices.Equal(idsOf(all.Data), ids) || all.Next != "" {
			t.Fatalf("a page that has just all: %+v", all)
		}
		// Each page comes from another replica and has another limit; a request that comes meanwhile is on none.
		cursor := ""
		var walked []int64
		for i, limit := range []int{1, 3, 1} {
			a := h.DoAt(t, i, http.MethodGet, fmt.Sprintf("%s?limit=%d%s", requests, limit, cursor), nil,
				"Authorization", "Bearer "+s.AccessToken())
			want(t, a, 200)
			page := apptest.Decode[listing](t, a)
			if walked = append(walked, idsOf(page.Data)...); len(page.Data) != limit || (page.Next == "") != (i == 2) {
				t.Fatalf("page %d: %+v", i+1, page)
			}
			cursor = "&cursor=" + page.Next
			submit(t, s, nil)
		}
		if !slices.Equal(walked, ids) {
			t.Fatalf("got %v, want %v", walked, ids)
		}
	})
	rule(t, "a supplier without requests has an empty list, and no total", func(t *testing.T) {
		a := h.Supplier(t).Do(t, http.MethodGet, requests, nil)
		if got := apptest.Decode[map[string]any](t, a); len(got) != 2 || len(got["data"].([]any)) != 0 ||
			got["next_cursor"] != nil {
			t.Fatalf("got %v", got)
		}
	})
	rule(t, "status filters, and a row that leaves the filter meanwhile takes no other with it", func(t *testing.T) {
		s := h.Supplier(t)
		var ids []int64
		for range 4 {
			ids = append([]int64{submit(t, s, nil)}, ids...)
		}
		var estimates []string
		for _, id := range ids {
			estimates = append(estimates, becomes(t, s, id, "estimated").Estimates[0]["estimate_id"].(string))
		}
		page := list(t, s, "?status=estimated&limit=2")
		for _, i := range []int{0, 2} {
			want(t, selectEstimate(t, s, ids[i], estimates[i]), 200)
		}
		rest := list(t, s, "?status=estimated&cursor="+page.Next)
		if !slices.Equal(append(idsOf(page.Data), idsOf(rest.Data)...), []int64{ids[0], ids[1], ids[3]}) {
			t.Fatalf("got %+v, then %+v", page, rest)
		}
		if got := list(t, s, "?status=selected"); !slices.Equal(idsOf(got.Data), []int64{ids[0], ids[2]}) {
			t.Fatalf("got %+v", got)
		}
	})
	rule(t, "a cursor belongs to its list, supplier and filters: any other is a 400 that names it", func(t *testing.T) {
		s, other := h.Supplier(t, "--scopes", "material-requests,webhooks,orders:read"), h.Supplier(t)
		for range 2 {
			submit(t, s, nil)
			submit(t, other, nil)
		}
		own := list(t, s, "?limit=1").Next
		if len(list(t, s, "?limit=100&cursor="+own).Data) != 1 {
			t.Fatal("another limit has another page")
		}
		mistyped := []byte(own)
		mistyped[len(own)/2] ^= 1 // of a letter or digit another one
		for name, query := range map[string]string{
			"mistyped": "?cursor=" + string(mistyped), "cut": "?cursor=" + own[:len(own)-1], "empty": "?cursor=",
			"given twice":         "?cursor=" + own + "&cursor=" + own,
			"of another supplier": "?cursor=" + list(t, other, "?limit=1").Next,
			"of another filter":   "?status=enqueued&cursor=" + own, "a page's number": "?cursor=2",
		} {
			t.Run(name, func(t *testing.T) { wantProblem(t, s.Do(t, http.MethodGet, requests+query, nil), 400, "cursor") })
		}
		for _, path := range []string{"/orders", deliveriesPath} {
			wantProblem(t, s.Do(t, http.MethodGet, path+"?cursor="+own, nil), 400, "cursor")
		}
	})
	rule(t, "every bad parameter is named", func(t *testing.T) {
		s := h.Supplier(t)
		wantProblem(t, s.Do(t, http.MethodGet, requests+"?status=x&limit=0&cursor=x", nil), 400, "status", "limit", "cursor")
		wantProblem(t, s.Do(t, http.MethodGet, requests+"?limit=101", nil), 400, "limit")
		wantProblem(t, s.Do(t, http.MethodGet, requests+"?limit=1&limit=2&cursor=", nil), 400, "limit", "cursor")
		want(t, s.Do(t, http.MethodGet, requests+"?limit=%zz", nil), 400)
		wantEmpty(t, h.Do(t, http.MethodGet, requests+"?limit=%zz", nil), 401)
	})
}
