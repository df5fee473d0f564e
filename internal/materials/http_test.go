package materials_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/materials"
)

type object = map[string]any

// item is a valid item with the given members put in; a nil value takes a member out.
func item(change object) object {
	return with(object{"material_id": 10, "material": "Shelf", "sku": "SHELF", "width": 90.5, "height": 30,
		"quantity": 4}, change)
}

// body is a valid request with the given members put in.
func body(id int64, change object) string {
	return marshal(with(object{"id": id, "shop_code": "SP-1", "materials": []object{item(nil)}}, change))
}

func with(base, change object) object {
	for name, value := range change {
		if base[name] = value; value == nil {
			delete(base, name)
		}
	}
	return base
}

func (p *pipeline) post(supplierID, text string) *httptest.ResponseRecorder {
	return p.call(http.MethodPost, "/api/material-requests", text, "X-Supplier", supplierID, "X-Request-Id", "call-1")
}

func (p *pipeline) get(supplierID, path string) object {
	p.t.Helper()
	w := p.call(http.MethodGet, "/api/material-requests"+path, "", "X-Supplier", supplierID)
	expect(p.t, w, http.StatusOK)
	var got object
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil {
		p.t.Fatal(err)
	}
	return got
}

func TestCreate_stores_the_request_and_publishes_it_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for range 2 {
			expect(t, p.post("acme", body(123, nil)), http.StatusCreated, `{"status":"enqueued","id":123}`)
		}
		if diff := cmp.Diff([]string{"acme/123/1"}, p.world.takePublished()); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
		want := object{
			"id": 123.0, "shop_code": "SP-1", "comment": nil, "status": "enqueued", "estimates": []any{}, "unavailable": []any{},
			"failure": nil, "selected_estimate_id": nil, "created_at": "2026-11-20T12:00:00Z",
			"updated_at": "2026-11-20T12:00:00Z",
			"materials": []any{object{"material_id": 10.0, "material": "Shelf", "material_variant_id": nil,
				"material_variant": nil,
				"sku":              "SHELF", "width": 90.5, "height": 30.0, "depth": nil, "quantity": 4.0}},
		}
		if diff := cmp.Diff(want, p.get("acme", "/123")); diff != "" {
			t.Errorf("GET (-want +got):\n%s", diff)
		}
	})
}

func TestCreate_takes_the_equal_request_again_and_refuses_a_different_one(t *testing.T) {
	t.Parallel()
	full := object{"comment": "", "materials": []object{item(object{"material_variant_id": 1, "material_variant": "oak",
		"depth": 0.0})}}
	tests := []struct {
		name   string
		second string
		status int
	}{
		{"the same text", body(1, full), 201},
		{"members in another order and numbers in another spelling",
			`{"comment":"","materials":[{"quantity":4,"depth":-0.0,"height":3e1,"width":90.50,
			"sku":"SHELF","material_variant":"oak","material_variant_id":1,"material":"Shelf","material_id":10,"x":1}],
			"shop_code":"SP-1","id":1}`, 201},
		{"another shop", body(1, object{"shop_code": "SP-2", "comment": "", "materials": full["materials"]}), 409},
		{"no comment instead of an empty one", body(1, object{"materials": full["materials"]}), 409},
		{"another size", body(1, with(maps.Clone(full),
			object{"materials": []object{item(object{"material_variant_id": 1, "material_variant": "oak", "depth": 0.5})}})),
			409},
		{"no variant", body(1, with(maps.Clone(full),
			object{"materials": []object{item(object{"material_variant": "oak", "depth": 0})}})), 409},
		{"one item more", body(1, with(maps.Clone(full),
			object{"materials": append(slices.Clone(full["materials"].([]object)), item(nil))})), 409},
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		expect(t, p.post("acme", body(1, full)), 201)
		for _, tt := range tests {
			t.Run(tt.name, func(t *testing.T) { expect(t, p.post("acme", tt.second), tt.status) })
		}
	})
}

func TestCreate_reads_null_as_missing_where_a_member_is_optional(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		expect(t, p.post("acme", body(1, nil)), 201)
		nulls := strings.Replace(body(1, nil), `"material_id"`,
			`"depth":null,"material_variant":null,"material_variant_id":null,"material_id"`, 1)
		expect(t, p.post("acme", strings.Replace(nulls, `"id":1,`, `"comment":null,"id":1,`, 1)), 201)
	})
}

func TestCreate_names_every_violation(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	p := newPipeline(t, db, nil)
	long := strings.Repeat("é", 256)
	tests := []struct {
		name string
		body string
		want []string
	}{
		{"nothing", `{}`, []string{"/id", "/materials", "/shop_code"}},
		{"nulls", `{"id":null,"shop_code":null,"comment":null,"materials":null}`,
			[]string{"/id", "/materials", "/shop_code"}},
		{"wrong types", `{"id":"1","shop_code":2,"comment":[],"materials":{}}`,
			[]string{"/comment", "/id", "/materials", "/shop_code"}},
		{"no items", body(1, object{"materials": []object{}}), []string{"/materials"}},
		{"repeated members", `{"id":1,"id":2,"shop_code":"a","shop_code":"b","materials":[]}`,
			[]string{"/id", "/materials", "/shop_code"}},
		{"an item that is null", `{"id":1,"shop_code":"a","materials":[null]}`, []string{"/materials/0"}},
		{"an empty item", body(1, object{"materials": []any{item(nil), object{}}}), []string{"/materials/1/height",
			"/materials/1/material", "/materials/1/material_id", "/materials/1/quantity", "/materials/1/sku",
			"/materials/1/width"}},
		{"texts", body(1, object{"shop_code": " \t", "comment": strings.Repeat("x", 4001),
			"materials": []object{item(object{"material": "", "sku": long})}}),
			[]string{"/comment", "/materials/0/material", "/materials/0/sku", "/shop_code"}},
		{"sizes", body(1, object{"materials": []object{item(object{"width": -0.1, "height": 1000000.1, "depth": -1})}}),
			[]string{"/materials/0/depth", "/materials/0/height", "/materials/0/width"}},
		{"quantities", body(1, object{"materials": []object{item(object{"quantity": 0}), item(object{"quantity": 1 << 31}),
			item(object{"quantity": 1.5})}}),
			[]string{"/materials/0/quantity", "/materials/1/quantity", "/materials/2/quantity"}},
		{"ids", `{"id":9223372036854775808,"shop_code":"a",
			"materials":[{"material_id":1.5,"material_variant_id":"x","material":"m","sku":"s",
				"width":1,"height":1,"quantity":1}]}`,
			[]string{"/id", "/materials/0/material_id", "/materials/0/material_variant_id"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := p.post("acme", tt.body)
			expect(t, w, http.StatusBadRequest)
			if diff := cmp.Diff(tt.want, pointers(t, w)); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
		})
	}
	if got := p.get("acme", "")["data"].([]any); len(got) > 0 {
		t.Errorf("%v requests stored, want none", got)
	}
}

func TestCreate_takes_the_extremes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		widest := strings.Repeat("é", 255)
		for i, text := range []string{
			body(-9223372036854775808, nil),
			body(9223372036854775807, object{"shop_code": widest, "comment": strings.Repeat("é", 4000)}),
			body(0, object{"materials": []object{item(object{"material_id": 0, "width": 0, "height": 0, "depth": 0,
				"material_variant_id": 0, "material_variant": ""})}}),
			body(1, object{"materials": []object{item(object{"width": 1e6, "height": 1e6, "depth": 1e6, "quantity": 2147483647,
				"sku": widest, "material": widest})}}),
			body(2, object{"shop_code": "<&>'\"\\ \u2028 \U0001F600"}),
		} {
			if w := p.post("acme", text); w.Code != 201 {
				t.Errorf("body %d: %d %s", i, w.Code, w.Body)
			}
		}
		if got := p.get("acme", "/2")["shop_code"]; got != "<&>'\"\\ \u2028 \U0001F600" {
			t.Errorf("shop code came back as %q", got)
		}
	})
}

func TestCreate_lists_each_repeated_combination_once(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	variant := item(object{"material_variant_id": 7, "sku": "B"})
	zero := item(object{"material_variant_id": 0})
	w := p.post("acme", body(1, object{"materials": []object{item(nil), variant, zero, variant, variant,
		item(object{"quantity": 9, "width": 1}), item(object{"sku": "C"})}}))
	expect(t, w, http.StatusUnprocessableEntity, `{"message":"Duplicate material items are not allowed.","duplicates":[`+
		`{"materialId":10,"materialVariantId":7,"sku":"B"},{"materialId":10,"materialVariantId":null,"sku":"SHELF"}]}`)
	if got := p.get("acme", "")["data"].([]any); len(got) > 0 {
		t.Errorf("%v requests stored, want none", got)
	}
}

func TestSuppliers_never_see_each_others_requests(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		expect(t, p.post("acme", body(1, nil)), 201)
		expect(t, p.post("other", body(1, object{"shop_code": "SP-2"})), 201)
		expect(t, p.call(http.MethodGet, "/api/material-requests/1", "", "X-Supplier", "third"), http.StatusNotFound)
		if got := p.get("other", "/1")["shop_code"]; got != "SP-2" {
			t.Errorf("other reads shop %v", got)
		}
		if got := p.get("acme", "")["data"].([]any); len(got) != 1 {
			t.Errorf("acme lists %v, want its own", got)
		}
	})
}

func TestList_is_in_the_order_of_acceptance_and_filters_by_status(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for id := range int64(5) {
			p.now.Store(noon.Add(time.Duration(-id/2) * time.Second).UnixMicro()) // whatever the clock says
			expect(t, p.post("acme", body(id, nil)), 201)
		}
		expect(t, p.deliver("msg_1", event("acme", 2, noon, "e1")), 200)
		for _, tt := range []struct {
			query string
			ids   []float64
			more  bool
		}{
			{"", []float64{4, 3, 2, 1, 0}, false},
			{"?limit=2", []float64{4, 3}, true},
			{"?status=estimated", []float64{2}, false},
			{"?status=enqueued&limit=3", []float64{4, 3, 1}, true},
			{"?status=enqueued&limit=4", []float64{4, 3, 1, 0}, false},
			{"?status=selected", nil, false},
		} {
			got := p.get("acme", tt.query)
			var ids []float64
			for _, r := range got["data"].([]any) {
				ids = append(ids, r.(object)["id"].(float64))
			}
			if more := got["next_cursor"] != nil; more != tt.more || !slices.Equal(ids, tt.ids) {
				t.Errorf("%q: ids %v and more: %t, want %v and %t", tt.query, ids, more, tt.ids, tt.more)
			}
		}
	})
}

func TestList_names_every_bad_parameter(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	for query, want := range map[string][]string{
		"?status=done&limit=101&cursor=x":        {"cursor", "limit", "status"},
		"?status=enqueued&status=failed":         {"status"},
		"?status=":                               {"status"},
		"?limit=0":                               {"limit"},
		"?cursor=":                               {"cursor"},
		"?cursor=x&cursor=x&limit=2.5&limit=2.5": {"cursor", "limit"},
	} {
		w := p.call(http.MethodGet, "/api/material-requests"+query, "", "X-Supplier", "acme")
		expect(t, w, http.StatusBadRequest)
		var problem struct{ Errors []struct{ Parameter string } }
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, e := range problem.Errors {
			got = append(got, e.Parameter)
		}
		slices.Sort(got)
		if !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", query, got, want)
		}
	}
}

func TestGet_of_what_is_no_id_is_not_found(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	expect(t, p.post("acme", body(1, nil)), 201)
	for _, id := range []string{"2", "01", "+1", "1.0", "x", "9223372036854775808"} {
		expect(t, p.call(http.MethodGet, "/api/material-requests/"+id, "", "X-Supplier", "acme"), http.StatusNotFound)
	}
}

func FuzzCreate(f *testing.F) {
	db := databasetest.Open(f, database.SQLite)
	s := materials.New(materials.Deps{DB: db, Now: time.Now, Publisher: nowhere{}, Flushers: 1, Outbox: &world{}})
	f.Cleanup(s.Close)
	f.Add([]byte(body(1, nil)))
	f.Add([]byte(body(2, object{"comment": "é\u0000",
		"materials": []any{item(object{"depth": json.Number("-0.0")}), nil, object{}}})))
	f.Add([]byte(`{"id":1e3,"shop_code":"\ud800","materials":[{}]}`))
	served := routes(f, materials.Handlers{Service: s})
	f.Fuzz(func(t *testing.T, text []byte) {
		r := httptest.NewRequest(http.MethodPost, "/api/material-requests", strings.NewReader(string(text)))
		r.Header.Set("X-Supplier", "acme")
		w := httptest.NewRecorder()
		served.ServeHTTP(w, r)
		switch w.Code {
		case http.StatusCreated, http.StatusConflict, http.StatusUnprocessableEntity:
		case http.StatusBadRequest:
			if !strings.Contains(w.Body.String(), `"errors":[{`) {
				t.Errorf("no violation is named: %s", w.Body)
			}
		default:
			t.Errorf("status %d: %s", w.Code, w.Body)
		}
		if w.Code != http.StatusCreated {
			return
		}
		var answer struct{ ID int64 }
		if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		get := httptest.NewRequest(http.MethodGet, fmt.Sprintf("/api/material-requests/%d", answer.ID), nil)
		get.Header.Set("X-Supplier", "acme")
		stored := httptest.NewRecorder()
		served.ServeHTTP(stored, get)
		again := httptest.NewRequest(http.MethodPost, "/api/material-requests", strings.NewReader(stored.Body.String()))
		again.Header.Set("X-Supplier", "acme")
		repeated := httptest.NewRecorder()
		if served.ServeHTTP(repeated, again); repeated.Code != http.StatusCreated {
			t.Errorf("what was stored is not what was sent: %d %s", repeated.Code, stored.Body)
		}
	})
}
