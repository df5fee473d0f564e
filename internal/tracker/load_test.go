package tracker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// many is a file of n lines that is made while it is read.
type many struct {
	n, made int
	each    func(made int) // nil: nothing
	rest    []byte
}

func (m *many) Read(p []byte) (int, error) {
	for len(m.rest) == 0 {
		if m.made == m.n {
			return 0, io.EOF
		}
		if m.made++; m.each != nil {
			m.each(m.made)
		}
		m.rest = fmt.Appendf(nil, `{"imei":%d,"dt_carga":"2026-11-20","data_de_ping":"2026-11-19","hora_de_ping":"10:00:00",`+
			`"dispositivo":"Rastreador %d","latitude":-23.5}`+"\n", m.made, m.made)
	}
	n := copy(p, m.rest)
	m.rest = m.rest[n:]
	return n, nil
}

func TestLoad_takes_constant_memory(t *testing.T) {
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f, lines := newFleet(t, db), 100_000
		if db.Engine() == database.SQLite {
			lines = 3_000 // the engine in Go is slow under the race detector
		}
		live := func() int64 { // without the garbage
			var m runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&m)
			return int64(m.HeapAlloc)
		}
		before, most, samples := live(), int64(0), 0
		sample := func(line int) {
			if line%(lines/10) == 0 {
				most = max(most, live()-before)
				samples++
			}
		}
		loaded, err := f.service.Load(t.Context(), f.client.ID, &many{n: lines, each: sample}, false)
		if err != nil || loaded.Records != int64(lines) {
			t.Fatalf("%+v, %v", loaded, err)
		}
		if samples != 10 || most > 32<<20 { // the file is 14 MB, as rows in memory it would be over 200
			t.Errorf("the heap took %d MiB in %d samples", most>>20, samples)
		}
		if p := f.get("/list?page=20&pageSize=100"); p.Total != lines || len(p.Labels) != 100 {
			t.Errorf("page 20 has %d of %d", len(p.Labels), p.Total)
		}
	})
}

func FuzzLoad(f *testing.F) {
	for _, seed := range []string{
		`{"imei":1,"dt_carga":"2026-11-20","ligado":true,"latitude":-1e3,"endereco":null}`,
		"{\"imei\":1,\"dt_carga\":\"2026-11-20\"}\n\n{}", "imei,dt_carga,dispositivo\n1,2026-11-20,\"a,\"\"b\nc\"\n",
		"\xEF\xBB\xBFimei\n", "{", "", "sep=;\nimei;dt_carga;latitude;ligado\n1;20/11/2026;-23,5;FALSO\n;;;\n",
		"imei\tdt_carga\n1\t2026-11-20 08:00\n", "\xFF\xFEi\x00m\x00", "imei,dt_carga,dispositivo\n1,2026-11-20,S\xE3o\n",
	} {
		f.Add([]byte(seed))
	}
	fleet := newFleet(f, databasetest.Open(f, database.SQLite))
	f.Fuzz(func(t *testing.T, text []byte) {
		loaded, err := fleet.service.Load(context.Background(), fleet.client.ID, bytes.NewReader(text), false)
		if err != nil && errs.KindOf(err) != errs.Invalid {
			t.Fatalf("%q: %v", text, err)
		}
		if err == nil && loaded.Records > 0 && len(get(t, fleet.engine, fleet.client.APIKey, "/list").Labels) == 0 {
			t.Fatalf("%q is loaded and not listed", text)
		}
	})
}

func FuzzQuery(f *testing.F) {
	fleet := newFleet(f, databasetest.Open(f, database.SQLite))
	fleet.load(row{Label: "a", Device: 1, Loaded: "2026-11-20"})
	f.Add("page=1&pageSize=20&filter=date:eq:2026-11-20")
	f.Add("filter=date:eq:9999-12-31&page=9223372036854775807")
	f.Fuzz(func(t *testing.T, query string) {
		for _, path := range []string{"/list", "/snapshot"} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.URL.RawQuery = query
			r.Header.Set("svc-public-hub-key", fleet.client.APIKey)
			w := httptest.NewRecorder()
			fleet.engine.ServeHTTP(w, r)
			if w.Code != 200 && w.Code != 400 || !json.Valid(w.Body.Bytes()) {
				t.Fatalf("%s?%s: %d %s", path, query, w.Code, w.Body)
			}
		}
	})
}

// Plans are made once a connection, the first ones over empty tables: a record is looked up by its id all the same.
func TestPlans_of_a_young_table_look_records_up_by_their_id(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	databasetest.Exec(t, db, `CREATE VIEW of_a_client AS SELECT * FROM tracker_records WHERE client_number = 1`)
	for _, state := range []string{`SELECT 1`, `ANALYZE tracker_records`, `VACUUM tracker_records`} {
		databasetest.Exec(t, db, state)
		for _, statement := range []string{
			`SELECT r.* FROM unnest('{1,2,3}'::bigint[]) p("id")
				CROSS JOIN LATERAL (SELECT * FROM of_a_client v WHERE v."id" = p."id" OFFSET 0) r
				WHERE EXISTS (SELECT 1 FROM tracker_versions) AND true`,
			`SELECT r.* FROM (VALUES (1), (2)) p(id)
				CROSS JOIN LATERAL (SELECT * FROM of_a_client v WHERE v."id" = p."id" OFFSET 0) r`,
		} {
			if plan := databasetest.Plan(t, db, statement); !strings.Contains(plan, "tracker_records_pkey") {
				t.Errorf("after %s: %s\n%s", state, statement, plan)
			}
		}
	}
}

// TestPlans reads no whole table and sorts no more than a page, whatever the page.
func TestPlans(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	f := newFleet(t, db)
	if _, err := f.service.Load(t.Context(), f.client.ID, &many{n: 5000}, false); err != nil {
		t.Fatal(err)
	}
	databasetest.Exec(t, db, `INSERT INTO tracker_records (client_number, dt_carga, imei, data_de_ping)
		SELECT 1, date '2026-01-01' + n % 300, n, date '2026-01-01' + n % 300 - 1 FROM generate_series(1, 60000) n`)
	databasetest.Exec(t, db, `ANALYZE tracker_records`)
	sorted := regexp.MustCompile(`Sort  \(.*actual time=.* rows=(\d+)`)
	for name, statement := range map[string]string{
		"page of a day": `SELECT dispositivo FROM tracker_client_1 WHERE dt_carga = '2026-05-01' AND id <= 100000
			ORDER BY "dt_carga" DESC, "id" DESC LIMIT 20 OFFSET 100`,
		"page of the list": `SELECT id FROM tracker_client_1 WHERE dt_carga <= '2026-05-01' AND id <= 100000
			ORDER BY "dt_carga" DESC, "id" DESC LIMIT 20 OFFSET 100`,
		"latest ping": `SELECT max("data_de_ping") FROM tracker_client_1
			WHERE "data_de_ping" <= '9999-12-31' AND "id" <= 100000`,
		"winners": `SELECT imei, id FROM tracker_client_1 WHERE "data_de_ping" = '2026-05-01' AND "id" <= 100000
			ORDER BY "imei", "hora_de_ping" DESC NULLS LAST, "dt_carga" DESC, "id" DESC`,
		"records by their id": `SELECT r.dispositivo FROM unnest('{1,2,3}'::bigint[]) p("id")
			CROSS JOIN LATERAL (SELECT * FROM tracker_client_1 v WHERE v."id" = p."id" OFFSET 0) r`,
	} {
		var plan []string
		if err := db.Reader(t.Context()).Raw("EXPLAIN ANALYZE " + statement).Scan(&plan).Error; err != nil {
			t.Fatal(err)
		}
		text := strings.Join(plan, "\n")
		if strings.Contains(text, "Seq Scan") || sorted.MatchString(text) || !strings.Contains(text, "Index") {
			t.Errorf("%s:\n%s", name, text)
		}
	}
}

// A file may come slowly. While it comes an operator's changes of the client are made, and hold after the load.
func TestLoad_keeps_no_operator_waiting_while_its_file_comes(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres) // on SQLite a load is a process of its own, which puts the rows aside
	f, ctx := newFleet(t, db), context.WithoutCancel(t.Context())
	viewWith(t, db, "other", nil)
	load := func(file io.Reader) error {
		_, err := f.service.Load(ctx, f.client.ID, file, false)
		return err
	}
	file, rest := io.Pipe()
	loaded := make(chan error)
	go func() {
		err := load(file)
		_ = file.CloseWithError(io.ErrClosedPipe) // a load that is refused reads no more
		loaded <- err
	}()
	line := `{"imei":1,"dt_carga":"2026-11-20","dispositivo":"` + strings.Repeat("x", 1<<10) + `"}` + "\n"
	for range 1 << 10 { // more than is read ahead: the rows are being stored
		if _, err := io.WriteString(rest, line); err != nil {
			t.Fatal(<-loaded)
		}
	}
	if _, err := f.service.SetViews(ctx, f.client.ID, []string{"other"}); err != nil {
		t.Error(err)
	}
	if _, err := f.service.RotateKey(ctx, f.client.ID, 0); err != nil {
		t.Error(err)
	}
	if _, err := f.service.SetActive(ctx, f.client.ID, false); err != nil {
		t.Error(err)
	}
	if err := load(strings.NewReader(line)); errs.KindOf(err) != errs.Conflict {
		t.Errorf("a second load: %v", err)
	}
	other, err := f.service.CreateClient(ctx, "another", nil)
	if err == nil {
		_, err = f.service.Load(ctx, other.ID, strings.NewReader(line), false)
	}
	if err != nil {
		t.Errorf("a load of another client: %v", err)
	}
	_ = rest.Close()
	if err := <-loaded; err != nil {
		t.Fatal(err)
	}
	clients, err := f.service.ListClients(ctx)
	if err != nil || clients[0].Active || !slices.Equal(clients[0].Views, []string{"other"}) {
		t.Errorf("after the load: %+v, %v", clients, err)
	}
	if err := load(strings.NewReader(line)); err != nil {
		t.Errorf("the next load: %v", err)
	}
}
