package products_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/products"
)

// shop is the route for the supplier that the header names.
type shop struct {
	*products.Service
	tb     testing.TB
	engine *gin.Engine
}

func newShop(tb testing.TB, db *database.DB) *shop {
	tb.Helper()
	s := &shop{Service: products.New(db, time.Now), tb: tb,
		engine: httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})}
	s.engine.POST("/", func(c *gin.Context) {
		c.Request = c.Request.WithContext(caller.With(c.Request.Context(),
			caller.Principal{SupplierID: c.GetHeader("X-Supplier")}))
	}, httpapi.Handle(products.Handlers{Service: s.Service}.Sync))
	return s
}

func (s *shop) post(supplier, body string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
	r.Header.Set("X-Supplier", supplier)
	w := httptest.NewRecorder()
	s.engine.ServeHTTP(w, r)
	return w
}

func (s *shop) sync(supplier, body string) string {
	s.tb.Helper()
	w := s.post(supplier, body)
	if w.Code != http.StatusOK {
		return fmt.Sprint(w.Code)
	}
	var answer struct{ SKU, Status string }
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || answer.SKU != "A" {
		s.tb.Fatalf("%s: %v", w.Body, err)
	}
	return answer.Status
}

func upsert(material, updatedAt string) string {
	at := ""
	if updatedAt != "" {
		at = `"updated_at":"` + updatedAt + `",`
	}
	return `{"action":"upsert",` + at + `"product":{"sku":"A","material_id":1,"material":"` + material +
		`","weight_kg":2.5,"production_days":3}}`
}

func deactivate(updatedAt string) string {
	return `{"action":"deactivate","updated_at":"` + updatedAt + `","product":{"sku":"A"}}`
}

func TestSync_statuses(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := newShop(t, db)
		for i, step := range []struct{ body, want string }{
			{deactivate("2026-11-01T00:00:00Z"), "404"},
			{upsert("Shelf", "2026-11-10T00:00:00Z"), "created"},
			{upsert("Shelf", "2026-11-10T00:00:00Z"), "unchanged"},
			{upsert("Old", "2026-11-09T00:00:00Z"), "stale"},
			{upsert("Board", "2026-11-11T00:00:00Z"), "updated"},
			{upsert("Board", "2026-11-12T00:00:00Z"), "unchanged"},
			{upsert("Late", "2026-11-11T12:00:00Z"), "stale"}, // an unchanged one is newer all the same
			{deactivate("2026-11-11T12:00:00Z"), "stale"},
			{deactivate("2026-11-13T00:00:00Z"), "deactivated"},
			{deactivate("2026-11-14T00:00:00Z"), "unchanged"},
			{upsert("Board", "2026-11-13T00:00:00-03:00"), "stale"},
			{upsert("Board", ""), "updated"}, // active again
			{strings.Replace(upsert("Board", ""), "2.5", "-0", 1), "updated"},
			{strings.Replace(upsert("Board", ""), "2.5", "0", 1), "unchanged"},
		} {
			if got := s.sync("acme", step.body); got != step.want {
				t.Errorf("step %d: %s, want %s", i+1, got, step.want)
			}
		}
		if got := s.sync("other", upsert("Shelf", "")); got != "created" {
			t.Errorf("another supplier's sku is %s", got)
		}
		board, shelf := products.Key{SupplierID: "acme", SKU: "A"}, products.Key{SupplierID: "other", SKU: "A"}
		keys := []products.Key{board, {SupplierID: "acme", SKU: "B"}, shelf, {SupplierID: "third", SKU: "A"}}
		for i := range 70_000 { // more than either engine takes parameters
			keys = append(keys, products.Key{SupplierID: "acme", SKU: fmt.Sprint("unknown ", i)})
		}
		found, err := s.Find(t.Context(), keys)
		if err != nil || len(found) != 2 || *found[board].ProductionDays != 3 || *found[board].WeightKg != 0 ||
			!found[board].Active || *found[shelf].WeightKg != 2.5 {
			t.Errorf("found %+v, %v", found, err)
		}
	})
}

func TestSync_of_one_sku_at_once_the_newer_time_wins_whatever_the_order(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a, b := newShop(t, db), newShop(t, db)
		var group sync.WaitGroup
		const n = 30
		change := func(i int) string {
			return upsert(fmt.Sprintf("M%d", i), time.Date(2026, 11, 1+i, 0, 0, 0, 0, time.UTC).Format(time.RFC3339))
		}
		for i := range n {
			group.Go(func() {
				if got := []*shop{a, b}[i%2].sync("acme", change(i)); got != "created" &&
					got != "updated" && got != "stale" {
					t.Errorf("sync %d: %s", i, got)
				}
			})
		}
		group.Wait()
		if got := a.sync("acme", change(n-1)); got != "unchanged" {
			t.Errorf("the newest is %s: another one won", got)
		}
	})
}

func TestSync_names_every_violation(t *testing.T) {
	t.Parallel()
	s := newShop(t, databasetest.Open(t, database.SQLite))
	w := s.post("acme", `{"action":"sell","updated_at":"yesterday","product":{"sku":" ","material_id":"x","width":-1,
		"height":1000001,"weight_kg":-0.1,"production_days":1.5}}`)
	var problem struct{ Errors []struct{ Pointer string } }
	if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Code != http.StatusBadRequest {
		t.Fatal(w.Code, w.Body, err)
	}
	named := map[string]bool{}
	for _, e := range problem.Errors {
		named[e.Pointer] = true
	}
	for _, pointer := range []string{"/action", "/updated_at", "/product/sku", "/product/material_id", "/product/width",
		"/product/height", "/product/weight_kg", "/product/production_days"} {
		if !named[pointer] {
			t.Errorf("%s is not named: %s", pointer, w.Body)
		}
	}
	for _, body := range []string{``, `[]`, `{}`, `{"action":"upsert"}`, `{"action":"upsert","product":{}}`,
		`{"action":null,"product":null}`} {
		if w := s.post("acme", body); w.Code != http.StatusBadRequest {
			t.Errorf("%s: status %d", body, w.Code)
		}
	}
}

func FuzzSync(f *testing.F) {
	s := newShop(f, databasetest.Open(f, database.SQLite))
	f.Add(upsert("Shelf", "2026-11-10T00:00:00Z"))
	f.Add(deactivate("2026-11-10T00:00:00Z"))
	f.Add(`{"action":"upsert","product":{"sku":"\u0000","material_id":1e3,"depth":null}}`)
	f.Fuzz(func(t *testing.T, body string) {
		if w := s.post("acme", body); w.Code != 200 && w.Code != 400 && w.Code != 404 && w.Code != 413 {
			t.Fatalf("%q: status %d", body, w.Code)
		}
	})
}
