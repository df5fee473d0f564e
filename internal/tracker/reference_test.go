package tracker_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	gocmp "github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/tracker"
)

// row is a record as a load gives it; the label distinguishes rows. Nil is null.
type row struct {
	Label  string  `json:"dispositivo"`
	Device int64   `json:"imei"`
	Loaded string  `json:"dt_carga"`
	Ping   *string `json:"data_de_ping"`
	Time   *string `json:"hora_de_ping"`
	id     int
}

// fleet is a client of a service with the rows that were loaded, in their order.
type fleet struct {
	tb      testing.TB
	service *tracker.Service
	engine  http.Handler
	client  tracker.CreatedClient
	rows    []row
}

func newService(tb testing.TB, db *database.DB) *tracker.Service {
	tb.Helper()
	return newServiceWith(tb, db, slog.New(slog.DiscardHandler))
}

func newServiceWith(tb testing.TB, db *database.DB, log *slog.Logger) *tracker.Service {
	tb.Helper()
	return newServiceOf(tb, tracker.Deps{DB: db, Log: log, Now: time.Now, Serving: true})
}

func newServiceOf(tb testing.TB, deps tracker.Deps) *tracker.Service {
	tb.Helper()
	s := tracker.New(deps)
	tb.Cleanup(s.Close)
	return s
}

func newFleet(tb testing.TB, db *database.DB) *fleet {
	tb.Helper()
	return newFleetOf(tb, newService(tb, db))
}

// newFleetOf makes a client of the service.
func newFleetOf(tb testing.TB, service *tracker.Service) *fleet {
	tb.Helper()
	f := &fleet{tb: tb, service: service, engine: serve(service)}
	var err error
	if f.client, err = f.service.CreateClient(tb.Context(), "fleet", nil); err != nil {
		tb.Fatal(err)
	}
	return f
}

func serve(s *tracker.Service) http.Handler { return serveWith(s, nil) }

func serveWith(s *tracker.Service, ledger *httpapi.Ledger) http.Handler {
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler), Ledger: ledger})
	group := engine.Group("/", s.ClientKey())
	group.GET("/list", httpapi.Handle(func(c *gin.Context) error { return s.List(c) }))
	group.GET("/snapshot", httpapi.Handle(func(c *gin.Context) error { return s.Snapshot(c) }))
	return engine
}

func (f *fleet) load(rows ...row) {
	f.tb.Helper()
	var text bytes.Buffer
	for _, r := range rows {
		line, err := json.Marshal(r)
		if err != nil {
			f.tb.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	if _, err := f.service.Load(context.WithoutCancel(f.tb.Context()), f.client.ID, &text, false); err != nil {
		f.tb.Fatal(err)
	}
	for _, r := range rows {
		r.id = len(f.rows)
		f.rows = append(f.rows, r)
	}
}

// page is an answer reduced to its labels.
type page struct {
	Total  int
	Labels []string
}

func (f *fleet) get(path string) page {
	f.tb.Helper()
	return get(f.tb, f.engine, f.client.APIKey, path)
}

// records returns a page's records.
func (f *fleet) records(path string) []map[string]any {
	f.tb.Helper()
	w := answer(f.engine, f.client.APIKey, path)
	var p struct{ Data []map[string]any }
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil || w.Code != http.StatusOK {
		f.tb.Fatalf("GET %s: status %d: %s", path, w.Code, w.Body)
	}
	return p.Data
}

func answer(engine http.Handler, key, path string) *httptest.ResponseRecorder {
	return ask(context.Background(), engine, key, path)
}

func ask(ctx context.Context, engine http.Handler, key, path string) *httptest.ResponseRecorder {
	request := httptest.NewRequestWithContext(ctx, http.MethodGet, path, nil)
	request.Header.Set("svc-public-hub-key", key)
	w := httptest.NewRecorder()
	engine.ServeHTTP(w, request)
	return w
}

func get(tb testing.TB, engine http.Handler, key, path string) page {
	tb.Helper()
	return pageOf(tb, path, answer(engine, key, path))
}

func pageOf(tb testing.TB, path string, w *httptest.ResponseRecorder) page {
	tb.Helper()
	if w.Code != http.StatusOK {
		tb.Fatalf("GET %s: status %d: %s", path, w.Code, w.Body)
	}
	var answer struct {
		Total int
		Data  []row
	}
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		tb.Fatalf("GET %s: %v: %s", path, err, w.Body)
	}
	p := page{Total: answer.Total, Labels: []string{}}
	for _, r := range answer.Data {
		p.Labels = append(p.Labels, r.Label)
	}
	return p
}

// list is the naive reference of the list.
func list(rows []row, day string) []string {
	kept := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return day != "" && r.Loaded != day })
	slices.SortFunc(kept, func(a, b row) int { return cmp.Or(cmp.Compare(b.Loaded, a.Loaded), cmp.Compare(b.id, a.id)) })
	return labels(kept)
}

// snapshot is the naive reference of the snapshot.
func snapshot(rows []row, day string) []string {
	if day == "" {
		for _, r := range rows {
			if r.Ping != nil && *r.Ping > day {
				day = *r.Ping
			}
		}
	}
	best := map[int64]row{}
	for _, r := range rows {
		if r.Ping == nil || *r.Ping != day {
			continue
		}
		if other, found := best[r.Device]; !found || better(r, other) {
			best[r.Device] = r
		}
	}
	var kept []row
	for _, r := range best {
		kept = append(kept, r)
	}
	slices.SortFunc(kept, func(a, b row) int { return cmp.Compare(a.Device, b.Device) })
	return labels(kept)
}

func better(a, b row) bool {
	at, bt := "", "" // null is last
	if a.Time != nil {
		at = *a.Time
	}
	if b.Time != nil {
		bt = *b.Time
	}
	return cmp.Or(cmp.Compare(at, bt), cmp.Compare(a.Loaded, b.Loaded), cmp.Compare(a.id, b.id)) > 0
}

func labels(rows []row) []string {
	list := make([]string, len(rows))
	for i, r := range rows {
		list[i] = r.Label
	}
	return list
}

// cut is what the page shows of everything.
func cut(all []string, number, size int) page {
	from := min((number-1)*size, len(all))
	return page{Total: len(all), Labels: append([]string{}, all[from:min(from+size, len(all))]...)}
}

// randomRows has nulls, ties, several rows of a device and a day, days without pings.
func randomRows(r *rand.Rand, n, from int) []row {
	rows := make([]row, n)
	for i := range rows {
		day := 1 + r.IntN(5)
		rows[i] = row{Label: fmt.Sprintf("r%d", from+i), Device: 1 + r.Int64N(7), Loaded: fmt.Sprintf("2026-11-%02d", day+3)}
		if r.IntN(5) > 0 {
			ping := fmt.Sprintf("2026-11-%02d", 1+r.IntN(day+2))
			rows[i].Ping = &ping
		}
		if r.IntN(4) > 0 {
			clock := fmt.Sprintf("%02d:00:00", r.IntN(3))
			rows[i].Time = &clock
		}
	}
	return rows
}

func TestListings_equal_a_naive_reference_at_every_page_size(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for seed := range uint64(2) {
			r := rand.New(rand.NewPCG(seed, 1))
			f := newFleet(t, db)
			f.load()
			for range 3 {
				f.load(randomRows(r, r.IntN(60), len(f.rows))...)
				f.compare()
			}
		}
	})
}

// compare asks for all pages of some sizes, plain and filtered.
func (f *fleet) compare() {
	f.tb.Helper()
	days := []string{"", "2026-11-01", "2026-11-04", "2026-11-05", "2026-11-08", "1999-01-01"}
	for _, size := range []int{1, 2, 3, 7, 20, 99, 100} {
		for _, day := range days {
			filter := ""
			if day != "" {
				filter = "&filter=date:eq:" + day
			}
			for name, all := range map[string][]string{"/list": list(f.rows, day), "/snapshot": snapshot(f.rows, day)} {
				for number := 1; number <= len(all)/size+2; number++ {
					path := fmt.Sprintf("%s?pageSize=%d&page=%d%s", name, size, number, filter)
					if diff := gocmp.Diff(cut(all, number, size), f.get(path)); diff != "" {
						f.tb.Fatalf("%s of %d rows (-want +got):\n%s", path, len(f.rows), diff)
					}
				}
			}
		}
	}
}

func TestListings_of_a_view_made_elsewhere_equal_the_reference(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := newFleet(t, db)
		f.load(randomRows(rand.New(rand.NewPCG(7, 7)), 70, 0)...)
		databasetest.Exec(t, db, `CREATE VIEW foreign_fleet AS SELECT * FROM tracker_client_1`)
		if _, err := f.service.SetViews(t.Context(), f.client.ID, []string{"foreign_fleet"}); err != nil {
			t.Fatal(err)
		}
		f.compare()
	})
}

func TestCrawl_while_loads_commit_has_nothing_twice_nothing_missed_no_mixed_dates(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := rand.New(rand.NewPCG(3, 9))
		f := newFleet(t, db)
		f.load(randomRows(r, 80, 0)...)
		other := serve(newService(t, db)) // a second replica, with nothing remembered
		crawls := map[string][]string{"/list?pageSize=7": list(f.rows, ""), "/snapshot?pageSize=2": snapshot(f.rows, ""),
			"/list?pageSize=3&filter=date:eq:2026-11-05": list(f.rows, "2026-11-05")}
		for path, all := range crawls {
			var seen []string
			for number := 1; ; number++ {
				engine := f.engine
				if number%2 == 0 {
					engine = other
				}
				p := get(t, engine, f.client.APIKey, fmt.Sprintf("%s&page=%d", path, number))
				if len(p.Labels) == 0 {
					break
				}
				if p.Total != len(all) {
					t.Fatalf("%s: the total of page %d is %d, of page 1 %d", path, number, p.Total, len(all))
				}
				seen = append(seen, p.Labels...)
				f.load(randomRows(r, 5, len(f.rows))...)
				if number == 1 {
					ping := "2026-11-09"
					f.load(row{Label: "newest", Device: 1, Loaded: "2026-11-10", Ping: &ping})
				}
			}
			if diff := gocmp.Diff(all, seen); diff != "" {
				t.Fatalf("%s (-page 1's state +crawl):\n%s", path, diff)
			}
			f.get("/list?pageSize=99")
			crawls["/list?pageSize=7"], crawls["/snapshot?pageSize=2"] = list(f.rows, ""), snapshot(f.rows, "")
			crawls["/list?pageSize=3&filter=date:eq:2026-11-05"] = list(f.rows, "2026-11-05")
		}
	})
}

func TestCounters_follow_every_change_of_the_records(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f := newFleet(t, db)
		f.load(randomRows(rand.New(rand.NewPCG(5, 5)), 50, 0)...)
		f.get("/list?pageSize=10")
		f.get("/snapshot?pageSize=2")

		databasetest.Exec(t, db, `DELETE FROM tracker_records WHERE dt_carga = '2026-11-05'`)
		f.rows = slices.DeleteFunc(f.rows, func(r row) bool { return r.Loaded == "2026-11-05" })
		if got := f.get("/list?pageSize=10&page=2"); !gocmp.Equal(got, cut(list(f.rows, ""), 2, 10)) {
			t.Errorf("after a deletion page 2 is %v", got)
		}
		f.compare()

		databasetest.Exec(t, db, `UPDATE tracker_records SET dt_carga = '2026-11-08', hora_de_ping = NULL
			WHERE dt_carga = '2026-11-06'`)
		for i := range f.rows {
			if f.rows[i].Loaded == "2026-11-06" {
				f.rows[i].Loaded, f.rows[i].Time = "2026-11-08", nil
			}
		}
		f.compare()

		databasetest.Exec(t, db, `DELETE FROM tracker_records WHERE client_number = 1`)
		f.rows = nil
		f.compare()
	})
}
