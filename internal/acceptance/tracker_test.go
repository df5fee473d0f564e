package acceptance

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	_ "modernc.org/sqlite"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

const (
	trackers = "/watch/devices/trackers"
	snapshot = trackers + "/snapshot"
)

// trackerClient is a client of the listings with its key.
type trackerClient struct {
	*apptest.Hub
	ID     string `json:"id"`
	Name   string `json:"name"`
	APIKey string `json:"api_key"`
}

func newTrackerClient(t *testing.T, h *apptest.Hub, flags ...string) *trackerClient {
	t.Helper()
	c := apptest.MustCommand[trackerClient](t, h,
		append([]string{"tracker", "client", "create", "--name", "Acme"}, flags...)...)
	c.Hub = h
	return &c
}

// load loads NDJSON lines and fails unless they are taken.
func (c *trackerClient) load(t *testing.T, records ...object) {
	t.Helper()
	loaded := apptest.MustCommand[object](t, c.Hub, "tracker", "load", c.file(t, "records.ndjson", records...),
		"--client", c.ID)
	if loaded["records"] != float64(len(records)) {
		t.Fatalf("loaded %v, want %d records", loaded, len(records))
	}
}

func (c *trackerClient) file(t *testing.T, name string, records ...object) string {
	t.Helper()
	var text strings.Builder
	for _, r := range records {
		line, err := json.Marshal(r)
		if err != nil {
			t.Fatal(err)
		}
		text.Write(append(line, '\n'))
	}
	return write(t, name, text.String())
}

func write(t *testing.T, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func (c *trackerClient) get(t *testing.T, path string) apptest.Answer {
	t.Helper()
	return c.Do(t, http.MethodGet, path, nil, "svc-public-hub-key", c.APIKey)
}

type trackerPage struct {
	Page, PageSize int
	Total          int64
	Data           []object
}

// page reads a page and gives the device names on it.
func (c *trackerClient) page(t *testing.T, path string) (p trackerPage, names string) {
	t.Helper()
	a := c.get(t, path)
	want(t, a, 200)
	p = apptest.Decode[trackerPage](t, a)
	for _, r := range p.Data {
		names += fmt.Sprint(r["dispositivo"])
	}
	return p, names
}

func tracked(name string, imei int64, loaded, pingDate, pingTime any) object {
	return object{"dispositivo": name, "imei": imei, "dt_carga": loaded, "data_de_ping": pingDate,
		"hora_de_ping": pingTime}
}

// database opens the service's own database, to make views in it as another owner would.
func openDatabase(t *testing.T, h *apptest.Hub) *sql.DB {
	t.Helper()
	driver, address := "pgx", h.Env["DATABASE_URL"]
	if h.Stack != apptest.Production {
		driver, address = "sqlite", "file:"+filepath.Join(h.Env["DATA_DIR"], "supplyhub.db")+"?_pragma=busy_timeout(10000)"
	}
	db, err := sql.Open(driver, address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

func trackerRules(t *testing.T, h *apptest.Hub) {
	rule(t, "no key, an unknown key and an inactive client are 403, before any parameter is looked at",
		func(t *testing.T) {
			c := newTrackerClient(t, h)
			c.load(t, tracked("A", 1, "2026-11-20", nil, nil))
			want(t, c.get(t, trackers), 200)
			wantProblem(t, h.Do(t, http.MethodGet, trackers, nil), 403)
			wantProblem(t, h.Do(t, http.MethodGet, trackers+"?page=0", nil, "svc-public-hub-key", "nonsense"), 403)
			wantProblem(t, h.Do(t, http.MethodGet, snapshot+"?page=0", nil, "svc-public-hub-key", c.APIKey[:len(c.APIKey)-1]+
				"!"), 403)
			apptest.MustCommand[object](t, h, "tracker", "client", "deactivate", c.ID)
			for i := range 2 {
				wantProblem(t, h.DoAt(t, i, http.MethodGet, trackers, nil, "svc-public-hub-key", c.APIKey), 403)
				wantProblem(t, h.DoAt(t, i, http.MethodGet, snapshot+"?page=x", nil, "svc-public-hub-key", c.APIKey), 403)
			}
		})
	rule(t, "no granted view, or one that no longer exists, is 403 No views available for this client",
		func(t *testing.T) {
			none := func(a apptest.Answer) {
				t.Helper()
				wantProblem(t, a, 403)
				if detail := apptest.Decode[object](t, a)["detail"]; detail != "No views available for this client" {
					t.Fatalf("detail %q", detail)
				}
			}
			c := newTrackerClient(t, h)
			none(c.get(t, trackers))
			none(c.get(t, snapshot+"?page=0&filter="))
			c.load(t, tracked("A", 1, "2026-11-20", nil, nil))
			want(t, c.get(t, trackers), 200)
			apptest.MustCommand[object](t, h, "tracker", "client", "set-views", c.ID, "--views", "nowhere")
			none(c.get(t, trackers))
			apptest.MustCommand[object](t, h, "tracker", "client", "set-views", c.ID, "--views", "tracker_records")
			none(c.get(t, trackers)) // a table of the service is no view
			apptest.MustCommand[object](t, h, "tracker", "client", "set-views", c.ID, "--views", "suppliers")
			none(c.get(t, trackers))
		})
	rule(t, "a grant of what is no view is noted on standard error, one that can be listed is not", func(t *testing.T) {
		c := newTrackerClient(t, h)
		file := c.file(t, "records.ndjson", tracked("A", 1, "2026-11-20", nil, nil))
		own := apptest.MustCommand[object](t, h, "tracker", "load", file, "--client", c.ID)["view"].(string)
		for _, command := range [][]string{{"set-views", c.ID}, {"create", "--name", t.Name()}} {
			_, errOut, code := h.Command(t, append([]string{"tracker", "client"},
				append(command, "--views", "nowhere,suppliers")...)...)
			if code != 0 || !strings.Contains(errOut, "no view nowhere") || !strings.Contains(errOut, "no view suppliers") {
				t.Errorf("%v: exit code %d, %q", command, code, errOut)
			}
		}
		if _, errOut, code := h.Command(t, "tracker", "client", "set-views", c.ID, "--views", own); code != 0 ||
			strings.Contains(errOut, "no view") {
			t.Errorf("its own view: exit code %d, %q", code, errOut)
		}
	})
	rule(t, "all violations of page, pageSize and filter are listed", func(t *testing.T) {
		c := newTrackerClient(t, h)
		c.load(t, tracked("A", 1, "2026-11-20", nil, nil))
		for _, path := range []string{trackers, snapshot} {
			wantProblem(t, c.get(t, path+"?page=0&pageSize=101&filter=date:eq:2026-02-30"), 400, "page", "pageSize", "filter")
			wantProblem(t, c.get(t, path+"?page=1&page=2&pageSize=1.5&filter=x"), 400, "page", "pageSize", "filter")
			for _, filter := range []string{"", "date:eq:", "date:eq:2026-11-1", "date:gt:2026-11-19", "date:eq:2026-11-19x",
				"date:eq:0000-01-01", "a&filter=b"} {
				wantProblem(t, c.get(t, path+"?filter="+filter), 400, "filter")
			}
			wantProblem(t, c.get(t, path+"?page=99999999999999999999"), 400, "page")
			wantProblem(t, c.get(t, path+"?x=%ff&page=0&filter=%ff"), 400, "page", "filter")
			want(t, c.get(t, path+"?x=%ff"), 200) // an unknown parameter is ignored, whatever it holds
			p, _ := c.page(t, path+"?page=9223372036854775807&pageSize=100")
			if p.Total > 1 || len(p.Data) != 0 {
				t.Fatalf("a page past the end has %+v", p)
			}
		}
	})
	rule(t, "a body over 1 MiB is 413 once the client and its view are known", func(t *testing.T) {
		c, huge := newTrackerClient(t, h), strings.Repeat(" ", 1<<20+1)
		c.load(t, tracked("A", 1, "2026-11-20", nil, nil))
		for _, path := range []string{trackers, snapshot} {
			wantProblem(t, c.Do(t, http.MethodGet, path, huge, "svc-public-hub-key", c.APIKey), 413)
		}
	})
	rule(t, "the list has all records of the view, newest load first, then the latest id; a filter keeps a load date",
		func(t *testing.T) {
			c := newTrackerClient(t, h)
			c.load(t, tracked("A", 1, "2026-11-18", "2026-11-17", "10:00:00"), tracked("B", 2, "2026-11-20", nil, nil),
				tracked("C", 1, "2026-11-20", "2026-11-20", nil))
			c.load(t, tracked("D", 4, "2026-11-19", nil, nil))
			newTrackerClient(t, h).load(t, tracked("X", 9, "2026-11-20", nil, nil))
			if p, names := c.page(t, trackers); names != "CBDA" || p.Total != 4 || p.Page != 1 || p.PageSize != 20 {
				t.Fatalf("got %s of %+v", names, p)
			}
			if p, names := c.page(t, trackers+"?page=2&pageSize=3"); names != "A" || p.Total != 4 {
				t.Fatalf("page 2 has %s of %d", names, p.Total)
			}
			if p, names := c.page(t, trackers+"?filter=date:eq:2026-11-20"); names != "CB" || p.Total != 2 {
				t.Fatalf("the filter keeps %s of %d", names, p.Total)
			}
			if p, _ := c.page(t, trackers+"?filter=date:eq:2020-01-01"); p.Total != 0 {
				t.Fatalf("a day without records has %d", p.Total)
			}
		})
	rule(t, "the snapshot has one record for each device: latest ping time, then load date, then id, nulls last, by imei",
		func(t *testing.T) {
			c := newTrackerClient(t, h)
			c.load(t,
				tracked("a", 7, "2026-11-20", "2026-11-19", "10:00:00"), tracked("b", 7, "2026-11-20", "2026-11-19", "11:00:00"),
				tracked("c", 7, "2026-11-20", "2026-11-19", nil),
				tracked("d", 3, "2026-11-20", "2026-11-19", nil), tracked("e", 3, "2026-11-20", "2026-11-19", nil),
				tracked("f", 5, "2026-11-20", "2026-11-18", "23:00:00"), tracked("g", 6, "2026-11-20", nil, nil))
			if p, names := c.page(t, snapshot); names != "eb" || p.Total != 2 {
				t.Fatalf("got %s of %d", names, p.Total)
			}
			if p, names := c.page(t, snapshot+"?filter=date:eq:2026-11-18"); names != "f" || p.Total != 1 {
				t.Fatalf("of the day before: %s of %d", names, p.Total)
			}
			if p, names := c.page(t, snapshot+"?page=2&pageSize=1"); names != "b" || p.Total != 2 {
				t.Fatalf("page 2: %s of %d", names, p.Total)
			}
		})
	rule(t, "a view without records is 200 with total 0", func(t *testing.T) {
		c := newTrackerClient(t, h)
		c.load(t)
		for _, path := range []string{trackers, snapshot, snapshot + "?filter=date:eq:2026-11-18"} {
			wantBody(t, c.get(t, path), 200, object{"page": 1, "pageSize": 20, "total": 0, "data": []object{}})
		}
	})
	rule(t, "a record has the fields of the specification, in its order, nulls as null", func(t *testing.T) {
		c := newTrackerClient(t, h)
		c.load(t, object{"imei": 1, "dt_carga": "2026-11-20"})
		body := string(c.get(t, trackers).Body)
		at := 0
		for _, name := range strings.Fields(recordFields) {
			next := strings.Index(body[at:], `"`+name+`":`)
			if next < 0 {
				t.Fatalf("%s is missing or not in its place: %s", name, body)
			}
			at += next
		}
		if n := strings.Count(body, "null"); n != len(strings.Fields(recordFields))-1 {
			t.Fatalf("%d nulls in %s", n, body)
		}
	})
	rule(t, "values come out as they were loaded, from NDJSON and from CSV", func(t *testing.T) {
		full := object{
			"dispositivo": "Rastreador \"7\" <ç>", "material": "Gôndola, 2 m", "identificador": 12, "cnpj": "00.000.000/0001-91",
			"planejado": true,
			"endereco":  nil, "latitude": -23.5505, "longitude": 0.5, "ligado": true, "sem_sinal": false,
			"imei":         356938035643809,
			"data_de_ping": "2026-11-19", "hora_de_ping": "09:08:07", "latitude_positivacao": "-23.550500", "perc_bateria": 81,
			"dt_carga": "2026-11-20",
		}
		c := newTrackerClient(t, h)
		c.load(t, full)
		header := "dispositivo,material,identificador,cnpj,planejado,endereco,latitude,longitude,ligado,sem_sinal,imei," +
			"data_de_ping,hora_de_ping,latitude_positivacao,perc_bateria,dt_carga\r\n"
		line := "\"Rastreador \"\"7\"\" <ç>\",\"Gôndola, 2 m\"," +
			"12,00.000.000/0001-91,true,,-23.5505,0.5,1,0,356938035643809,2026-11-19,09:08:07,-23.550500,81,2026-11-20\r\n"
		d := newTrackerClient(t, h)
		apptest.MustCommand[object](t, h, "tracker", "load", write(t, "records.csv", "\xEF\xBB\xBF"+header+line), "--client",
			d.ID)
		for _, client := range []*trackerClient{c, d} {
			p, _ := client.page(t, trackers)
			for name, value := range full {
				if got := p.Data[0][name]; name != "dt_carga" && fmt.Sprint(got) != fmt.Sprint(normalise(t, value)) {
					t.Errorf("%s is %v, loaded %v", name, got, value)
				}
			}
		}
	})
	rule(t, "a load is all or nothing and names the bad line with all that is wrong", func(t *testing.T) {
		c := newTrackerClient(t, h)
		good := tracked("A", 1, "2026-11-20", nil, nil)
		for text, wants := range map[string][]string{
			"{\"imei\":0,\"dt_carga\":\"2026-11-20\"}": {"Line 2", "imei"},
			"{\"imei\":-5,\"data_de_ping\":\"2026-11-31\",\"dt_carga\":\"2026-11-20\",\"x\":1}": {"Line 2", "imei",
				"data_de_ping", "x"},
			"{\"imei\":\"1\",\"dt_carga\":\"2026-02-30\",\"hora_de_ping\":\"24:00:00\"}": {"Line 2", "imei", "dt_carga",
				"hora_de_ping"},
			"{\"dt_carga\":null}":     {"Line 2", "imei", "dt_carga"},
			"[1]":                     {"Line 2", "JSON object"},
			"{\"imei\":1":             {"Line 2", "JSON object"},
			"{\"imei\":1,\"imei\":2}": {"Line 2", "JSON object"},
		} {
			first, err := json.Marshal(good)
			if err != nil {
				t.Fatal(err)
			}
			_, stderr, code := h.Command(t, "tracker", "load", write(t, "bad.ndjson", string(first)+"\n"+text+"\n"), "--client",
				c.ID)
			if code != 1 {
				t.Errorf("%s: exit code %d", text, code)
			}
			for _, part := range wants {
				if !strings.Contains(stderr, part) {
					t.Errorf("%s: %q is not named in %s", text, part, stderr)
				}
			}
		}
		_, stderr, code := h.Command(t, "tracker", "load",
			write(t, "many.ndjson", strings.Repeat("{\"imei\":0,\"x\":1}\n[1]\n", 60)), "--client", c.ID)
		if code != 1 || !strings.Contains(stderr, "Line 1/imei") || !strings.Contains(stderr, "Line 1/x") ||
			!strings.Contains(stderr, "Line 100 is not a JSON object") || strings.Contains(stderr, "Line 101") {
			t.Errorf("120 bad lines: exit code %d, %s", code, stderr)
		}
		_, stderr, code = h.Command(t, "tracker", "load",
			write(t, "two.csv", "imei,dt_carga\n1,2026-11-20\n0,2026-11-20\n1,2,3\n4,2026-11-20\nx,2026-11-20\n"), "--client",
			c.ID)
		if code != 1 || !strings.Contains(stderr, "3 lines") || !strings.Contains(stderr, "Line 3/imei") ||
			!strings.Contains(stderr, "Line 4 is not a CSV record") || !strings.Contains(stderr, "Line 6/imei") {
			t.Errorf("three bad lines: exit code %d, %s", code, stderr)
		}
		_, stderr, code = h.Command(t, "tracker", "load", write(t, "bad.csv", "imei,dt_carga,colour\n1,2026-11-20,red\n"),
			"--client", c.ID)
		if code != 1 || !strings.Contains(stderr, "Line 1") || !strings.Contains(stderr, "colour") {
			t.Errorf("a bad header: exit code %d, %s", code, stderr)
		}
		if _, _, code := h.Command(t, "tracker", "load", c.file(t, "r.ndjson", good), "--client", "trk_unknown"); code != 1 {
			t.Errorf("an unknown client: exit code %d", code)
		}
		c.load(t)
		if p, _ := c.page(t, trackers); p.Total != 0 {
			t.Errorf("%d records of refused loads are there", p.Total)
		}
	})
	rule(t, "pages after the first show what page 1 saw while loads go on, at any api", func(t *testing.T) {
		c := newTrackerClient(t, h)
		for day := range 3 {
			var records []object
			for device := range int64(4) {
				records = append(records, tracked(fmt.Sprintf("%d", device), device+1, fmt.Sprintf("2026-11-1%d", day+1),
					fmt.Sprintf("2026-11-1%d", day), nil))
			}
			c.load(t, records...)
		}
		_, list := c.page(t, trackers+"?pageSize=5")
		_, fleet := c.page(t, snapshot+"?pageSize=2")
		c.load(t, tracked("9", 9, "2026-11-19", "2026-11-18", nil), tracked("8", 1, "2026-11-13", "2026-11-12", "10:00:00"))
		for i := range 2 {
			a := h.DoAt(t, i, http.MethodGet, trackers+fmt.Sprintf("?pageSize=5&page=%d", i+2), nil, "svc-public-hub-key",
				c.APIKey)
			p := apptest.Decode[trackerPage](t, a)
			for _, r := range p.Data {
				list += fmt.Sprint(r["dispositivo"])
			}
			if p.Total != 12 {
				t.Errorf("the total became %d", p.Total)
			}
		}
		_, rest := c.page(t, snapshot+"?pageSize=2&page=2")
		if list != "321032103210" || fleet+rest != "0123" {
			t.Errorf("the crawls gave %s and %s", list, fleet+rest)
		}
		if p, names := c.page(t, snapshot); names != "9" || p.Total != 1 {
			t.Errorf("a fresh snapshot gives %s of %d", names, p.Total)
		}
		if p, _ := c.page(t, trackers); p.Total != 14 {
			t.Errorf("a fresh list has %d", p.Total)
		}
	})
	rule(t, "a view of another owner answers alike, whatever its column types", func(t *testing.T) { foreignView(t, h) })
	rule(t, "a view that lacks a column is 503", func(t *testing.T) {
		db := openDatabase(t, h)
		c := newTrackerClient(t, h, "--views", "lacking") // not there yet
		if _, err := db.ExecContext(t.Context(), `CREATE VIEW lacking AS SELECT 1 AS id, 'x' AS dispositivo`); err != nil {
			t.Fatal(err)
		}
		wantProblem(t, c.get(t, trackers), 503)
		wantProblem(t, c.get(t, snapshot+"?filter=date:eq:2026-11-20"), 503)
		logged(t, h.APIs[0], "the granted view lacking cannot be read")
		apptest.MustCommand[object](t, h, "tracker", "client", "deactivate", c.ID)
	})
	rule(t, "a catalogue or a view that lacks columns is refused at the grant, with the reason", func(t *testing.T) {
		if _, err := openDatabase(t, h).ExecContext(t.Context(),
			`CREATE VIEW short AS SELECT 1 AS id, 'x' AS dispositivo`); err != nil {
			t.Fatal(err)
		}
		c := newTrackerClient(t, h)
		for view, reason := range map[string]string{
			"pg_shadow": "catalogue", "pg_catalog.pg_views": "catalogue", "information_schema.tables": "catalogue",
			"sqlite_master": "catalogue", "sqlite_schema": "catalogue", "short": "dt_carga",
		} {
			for _, command := range [][]string{{"create", "--name", "x", "--views", view},
				{"set-views", c.ID, "--views", "nowhere," + view}} {
				if _, stderr, code := h.Command(t, append([]string{"tracker", "client"}, command...)...); code != 1 ||
					!strings.Contains(stderr, reason) {
					t.Errorf("%s %s: exit code %d, %s", command[0], view, code, stderr)
				}
			}
		}
	})
	rule(t, "a load date that the filter cannot read is named at the grant", func(t *testing.T) {
		for name, value := range map[string]string{"as_text": "'01/11/2026'", "as_number": "20261101"} {
			view := viewOf(t, h, name, map[string]string{"dispositivo": "'A'", "dt_carga": value})
			if out, stderr, code := h.Command(t, "tracker", "client", "create", "--name", name, "--views", view); code != 0 ||
				!strings.Contains(stderr, "the column dt_carga of "+view) || strings.Contains(stderr, "NULL") {
				t.Errorf("%s: exit code %d, %s%s", value, code, out, stderr)
			}
		}
	})
	rule(t, "ids of a view may be null and repeat: each row is shown once, and the snapshot's record is the latest",
		func(t *testing.T) {
			c := newTrackerClient(t, h, "--views", viewOf(t, h, "repeated",
				map[string]string{"dispositivo": "'A'", "id": "CAST(NULL AS integer)"},
				map[string]string{"dispositivo": "'B'", "id": "CAST(NULL AS integer)"},
				map[string]string{"dispositivo": "'C'", "id": "7"},
				map[string]string{"dispositivo": "'D'", "id": "7", "hora_de_ping": "'09:00:00'"}))
			seen := ""
			for number := range 4 {
				p, names := c.page(t, fmt.Sprintf("%s?pageSize=1&page=%d", trackers, number+1))
				if p.Total != 4 {
					t.Errorf("the total is %d", p.Total)
				}
				seen += names
			}
			if seen != "CDAB" {
				t.Errorf("the pages show %s", seen)
			}
			if p, names := c.page(t, snapshot); names != "D" || p.Total != 1 {
				t.Errorf("the snapshot is %s of %d", names, p.Total)
			}
		})
	rule(t, "a view that fails is 503, a grant and the doctor name it and what it loses", func(t *testing.T) {
		raises := map[bool]string{true: "(1/(length('x')-1))::text", false: "json('{')"}[h.Stack == apptest.Production]
		view := viewOf(t, h, "failing", map[string]string{"material": raises})
		c := newTrackerClient(t, h, "--views", view)
		wantProblem(t, c.get(t, trackers), 503)
		wantProblem(t, c.get(t, snapshot), 503)
		wantProblem(t, c.get(t, trackers+"?page=0"), 400, "page")
		logged(t, h.APIs[0], "the granted view failing cannot be read") // also when another view was named a moment ago
		lossy := viewOf(t, h, "lossy", map[string]string{"perc_bateria": "79.5"})
		_, stderr, code := h.Command(t, "tracker", "client", "create", "--name", "lossy", "--views", lossy)
		if code != 0 || !strings.Contains(stderr, "perc_bateria") || !strings.Contains(stderr, "79.5") ||
			!strings.Contains(stderr, `CREATE VIEW "lossy" AS SELECT id, dt_carga,`) {
			t.Errorf("a grant: exit code %d, %s", code, stderr)
		}
		report, _, _ := h.Command(t, "doctor")
		for _, named := range []string{"failing", "lossy", "perc_bateria"} {
			if !strings.Contains(report, named) {
				t.Errorf("the doctor does not name %s: %s", named, report)
			}
		}
		apptest.MustCommand[object](t, h, "tracker", "client", "deactivate", c.ID)
	})
	rule(t, "a spreadsheet's file is loaded as it is, oddities are warnings", func(t *testing.T) {
		c := newTrackerClient(t, h)
		text := "imei;dt_carga;cidade_positivacao;latitude;ligado;data_de_ping;\r\n" +
			"356938035643809;20/11/2026;S\xE3o Paulo;-23,5505;VERDADEIRO;21/11/2026;\r\n;;;;;;\r\n"
		file := write(t, "sheet.csv", text)
		_, stderr, code := h.Command(t, "tracker", "load", file, "--client", c.ID)
		if code != 0 || !strings.Contains(stderr, "Windows-1252; line 2") || !strings.Contains(stderr, "data_de_ping of 1 ") {
			t.Errorf("exit code %d, %s", code, stderr)
		}
		p, _ := c.page(t, trackers)
		if r := p.Data[0]; p.Total != 1 || r["latitude"] != -23.5505 || r["ligado"] != true ||
			r["cidade_positivacao"] != "São Paulo" || r["data_de_ping"] != "2026-11-21" {
			t.Errorf("the list is %v", p)
		}
		if _, stderr, code := h.Command(t, "tracker", "load", file, "--client", c.ID); code != 0 ||
			!strings.Contains(stderr, "2026-11-20") || !strings.Contains(stderr, "--replace") {
			t.Errorf("once more: exit code %d, %s", code, stderr)
		}
		if _, stderr, code := h.Command(t, "tracker", "load", file, "--client", c.ID, "--replace"); code != 0 ||
			strings.Contains(stderr, "--replace") {
			t.Errorf("with --replace: exit code %d, %s", code, stderr)
		}
		if p, _ := c.page(t, trackers); p.Total != 1 {
			t.Errorf("a replaced day has %d records", p.Total)
		}
		_, stderr, code = h.Command(t, "tracker", "load", write(t, "a.csv", "imei;dt_carga\n3,56938E+14;20/11/2026\n"),
			"--client", c.ID)
		if code != 1 || !strings.Contains(stderr, "number format") {
			t.Errorf("a shortened IMEI: exit code %d, %s", code, stderr)
		}
	})
	rule(t, "a key rotates with an overlap, and clients are listed without their keys", func(t *testing.T) {
		c := newTrackerClient(t, h)
		c.load(t, tracked("A", 1, "2026-11-20", nil, nil))
		former := *c
		c.APIKey = apptest.MustCommand[trackerClient](t, h, "tracker", "client", "rotate-key", c.ID).APIKey
		want(t, c.get(t, trackers), 200)
		want(t, former.get(t, trackers), 200)
		c.APIKey = apptest.MustCommand[trackerClient](t, h, "tracker", "client", "rotate-key", c.ID, "--overlap", "0s").APIKey
		want(t, c.get(t, trackers), 200)
		wantProblem(t, former.get(t, trackers), 403)
		out, _, _ := h.Command(t, "tracker", "client", "list", "-o", "json")
		if !strings.Contains(out, c.ID) || strings.Contains(out, c.APIKey) {
			t.Fatalf("the list is %s", out)
		}
		if _, _, code := h.Command(t, "tracker", "client", "deactivate", "trk_unknown"); code != 1 {
			t.Errorf("an unknown client: exit code %d", code)
		}
		if _, _, code := h.Command(t, "tracker", "client", "create"); code != 2 {
			t.Errorf("a missing name: exit code %d", code)
		}
		if _, stderr, code := h.Command(t, "tracker", "client", "create", "--name", " ", "--views",
			strings.Repeat("v", 64)); code != 1 || !strings.Contains(stderr, "name") || !strings.Contains(stderr, "views") {
			t.Errorf("a bad client: exit code %d, %s", code, stderr)
		}
	})
}

// foreignView grants a view with other types: texts, timestamps, booleans as integers, a quoted name, in another
// schema.
func foreignView(t *testing.T, h *apptest.Hub) {
	db := openDatabase(t, h)
	name, schema := "Fleet View", ""
	text, stamp, truth, imei := "'%s'", "'%s 10:11:12'", "1", "'%d'"
	if h.Stack == apptest.Production {
		if _, err := db.ExecContext(t.Context(), `CREATE SCHEMA elsewhere`); err != nil {
			t.Fatal(err)
		}
		schema = "elsewhere."
		stamp = "timestamp '%s 10:11:12'"
	}
	var rows []string
	for i, r := range []struct {
		name, loaded, ping string
		imei               int64
	}{{"A", "2026-11-18", "2026-11-18", 20}, {"B", "2026-11-20", "2026-11-19", 3}, {"C", "2026-11-20", "2026-11-19",
		20}, {"D", "2026-11-20", "2026-11-19", 20}} {
		values := map[string]string{
			"id": fmt.Sprint(i + 1), "dt_carga": fmt.Sprintf(stamp, r.loaded), "data_de_ping": fmt.Sprintf(text, r.ping),
			"hora_de_ping": "'09:00:00.5'",
			"dispositivo":  fmt.Sprintf(text, r.name), "imei": fmt.Sprintf(imei, r.imei), "ligado": truth, "planejado": "0",
			"latitude": "'1.50'",
		}
		var columns []string
		for _, field := range append(strings.Fields(recordFields), "id", "dt_carga") {
			value, given := values[field]
			if !given {
				value = "NULL"
			}
			columns = append(columns, value+" AS "+field)
		}
		rows = append(rows, "SELECT "+strings.Join(columns, ", "))
	}
	quoted := `"` + name + `"`
	if schema != "" {
		quoted = "elsewhere." + quoted
	}
	if _, err := db.ExecContext(t.Context(), "CREATE VIEW "+quoted+" AS "+strings.Join(rows, " UNION ALL ")); err != nil {
		t.Fatal(err)
	}
	if schema != "" { // as its operator lets the api in, whose role is only there where the binaries have the least rights
		grant := "DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'supplyhub_api') THEN " +
			"GRANT USAGE ON SCHEMA elsewhere TO supplyhub_api; GRANT SELECT ON " + quoted + " TO supplyhub_api; END IF; END $$"
		if _, err := db.ExecContext(t.Context(), grant); err != nil {
			t.Fatal(err)
		}
	}
	c := newTrackerClient(t, h, "--views", schema+name)
	if p, names := c.page(t, trackers); names != "DCBA" || p.Total != 4 {
		t.Fatalf("the list is %s of %d", names, p.Total)
	}
	if p, names := c.page(t, trackers+"?filter=date:eq:2026-11-20&pageSize=2&page=2"); names != "B" || p.Total != 3 {
		t.Fatalf("the filtered list is %s of %d", names, p.Total)
	}
	p, names := c.page(t, snapshot)
	if names != "BD" || p.Total != 2 {
		t.Fatalf("the snapshot is %s of %d", names, p.Total)
	}
	r := p.Data[1]
	if r["imei"] != float64(20) || r["ligado"] != true || r["planejado"] != false || r["latitude"] != 1.5 ||
		r["hora_de_ping"] != "09:00:00" || r["data_de_ping"] != "2026-11-19" {
		t.Fatalf("the record is %v", r)
	}
	if _, err := db.ExecContext(t.Context(), "DROP VIEW "+quoted); err != nil {
		t.Fatal(err)
	}
	wantProblem(t, c.get(t, trackers), 403)
	wantProblem(t, c.get(t, snapshot), 403)
	logged(t, h.APIs[0], "the granted view "+schema+name+" cannot be read")
}

func logged(t *testing.T, p *apptest.Process, line string) {
	t.Helper()
	wait.Until(t, p.Name+" logs that "+line, func() bool { return strings.Contains(p.Log(), line) })
}

const recordFields = `dispositivo material identificador cnpj planejado endereco latitude longitude ligado sem_sinal
	desligado em_estoque nao_positivado alerta_inicial alerta_moderado alerta_critico imei data_de_captura data_de_ping
	data_de_positivacao data_de_recebimento data_captura hora_de_captura hora_de_ping hora_de_positivacao hora_captura
	nome_do_pdv canal regiao projeto loja_alvo rede categoria cnpj_da_loja razao_social_da_loja nome_fantasia_da_loja
	rua_positivacao cep_positivacao cidade_positivacao estado_positivacao bairro_positivacao logradouro_positivacao
	numero_positivacao complemento_positivacao latitude_positivacao longitude_positivacao latitude_rastreada
	longitude_rastreada endereco_rastreado emails_para_notificar perc_bateria`
