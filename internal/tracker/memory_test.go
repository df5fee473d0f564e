package tracker_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// limited is a fleet whose client can have half of so much memory, and what is logged.
func limited(t *testing.T, db *database.DB, memory int64) (f *fleet, log *strings.Builder) {
	t.Helper()
	log = &strings.Builder{}
	f = newFleetOf(t, newServiceWith(t, db, telemetry.NewLogger(log, "text", "info", false)))
	f.engine = serveWith(f.service, httpapi.NewLedger(memory, memory))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the log is %s", log)
		}
	})
	return f, log
}

// refused asks for a page that must be refused, and be named in the log with the reason. On a busy machine it may be
// refused first as it takes longer than a read may.
func refused(t *testing.T, f *fleet, log *strings.Builder, key, path, view, reason string) {
	t.Helper()
	wait.Until(t, path+" of "+view+": "+reason, func() bool {
		w := answer(f.engine, key, path)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" || w.Body.Len() > 1000 {
			t.Errorf("%s of %s: %d %v with %d bytes", path, view, w.Code, w.Header(), w.Body.Len())
		}
		return strings.Contains(log.String(), "the granted view "+view+" cannot be read") &&
			strings.Contains(log.String(), reason)
	})
}

// inTime reads a page as soon as the machine is fast enough for it.
func inTime(t *testing.T, f *fleet, key, path string) page {
	t.Helper()
	var w *httptest.ResponseRecorder
	wait.Until(t, path+" is read in time", func() bool {
		w = answer(f.engine, key, path)
		return w.Code != http.StatusServiceUnavailable
	})
	return pageOf(t, path, w)
}

// A page of 100 records, each with fields of 1 MiB, once took all the memory of an api of 256 MiB.
func TestPage_takes_no_more_memory_than_its_caller_can_have(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		const long = 10_000
		f, log := limited(t, db, 800<<10)
		var text strings.Builder
		for i := range 100 {
			fmt.Fprintf(&text, `{"imei":%d,"dt_carga":"2026-11-20","data_de_ping":"2026-11-20","dispositivo":"r%d","rede":"%s"}`+
				"\n", i+1, i, strings.Repeat("x", long))
		}
		load := strings.NewReader(text.String())
		if _, err := f.service.Load(context.WithoutCancel(t.Context()), f.client.ID, load, false); err != nil {
			t.Fatal(err)
		}
		databasetest.Exec(t, db, `CREATE VIEW of_others AS SELECT * FROM tracker_client_1`)
		for view, key := range map[string]string{"tracker_client_1": f.client.APIKey,
			"of_others": f.clientOf("of others", "of_others")} {
			for _, path := range []string{"/list", "/snapshot"} {
				refused(t, f, log, key, path+"?pageSize=100", view, "more memory than one caller can have")
				if p := inTime(t, f, key, path+"?pageSize=10"); p.Total != 100 || len(p.Labels) != 10 {
					t.Errorf("a smaller page of %s: %+v", view, p)
				}
			}
		}
	})
}

// A view with a row of 150 MB once took all the memory of an api of 256 MiB, before anything was known of the row.
func TestView_with_a_row_that_is_too_large_is_unavailable_and_named(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f, log := limited(t, db, 256<<20)
		text, beyond := "repeat('x', %d << 20)", 18
		if db.Engine() == database.SQLite { // which knows no row by itself, only what it sorts
			text, beyond = "printf('%%.*c', %d << 20, 'x')", 36
		}
		viewWith(t, db, "large", map[string]string{"rede": fmt.Sprintf(text, 1)})
		viewWith(t, db, "too_large", map[string]string{"rede": fmt.Sprintf(text, beyond)})
		tooLarge, large := f.clientOf("too large", "too_large"), f.clientOf("large", "large")
		for _, path := range []string{"/list", "/snapshot", "/list"} { // more than there are connections for such views
			refused(t, f, log, tooLarge, path, "too_large", "a row of it is too large")
		}
		notes := strings.Join(f.service.ViewNotes(t.Context(), []string{"too_large"}), "")
		if !strings.Contains(notes, "too_large cannot be read") || !strings.Contains(notes, "a row of it is too large") {
			t.Errorf("the notes are %q", notes)
		}
		if p := inTime(t, f, large, "/list"); p.Total != 1 {
			t.Errorf("another view with a large row: %+v", p)
		}
	})
}

func TestSnapshot_chooses_among_no_more_devices_than_there_is_memory_for(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		f, log := limited(t, db, 128<<10)
		f.load(row{Label: "a", Device: 1, Loaded: "2026-11-20"}) // which makes and grants the view
		databasetest.Exec(t, db, `INSERT INTO tracker_records (client_number, dt_carga, imei, data_de_ping)
			WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
			SELECT 1, '2026-11-20', i, '2026-11-20' FROM n`)
		databasetest.Exec(t, db, `CREATE VIEW of_others AS SELECT * FROM tracker_client_1`)
		for view, key := range map[string]string{"tracker_client_1": f.client.APIKey,
			"of_others": f.clientOf("of others", "of_others")} {
			refused(t, f, log, key, "/snapshot?pageSize=1", view, "more memory than one caller can have")
			if p := inTime(t, f, key, "/list?pageSize=1"); p.Total != 3001 {
				t.Errorf("a list of %s: %+v", view, p)
			}
		}
	})
}
