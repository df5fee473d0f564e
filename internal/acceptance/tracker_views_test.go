package acceptance

import (
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// viewOf makes a view of these rows next to the service's own tables, and lets the api read it.
func viewOf(t *testing.T, h *apptest.Hub, name string, rows ...map[string]string) string {
	t.Helper()
	db := openDatabase(t, h)
	selects := []string{}
	for _, row := range rows {
		columns := []string{}
		for _, column := range append([]string{"id", "dt_carga"}, strings.Fields(recordFields)...) {
			value := map[string]string{"id": "1", "imei": "1", "dt_carga": "'2026-11-20'",
				"data_de_ping": "'2026-11-19'"}[column]
			if given := row[column]; given != "" {
				value = given
			}
			if value == "" {
				value = "NULL"
			}
			columns = append(columns, value+" AS "+column)
		}
		selects = append(selects, "SELECT "+strings.Join(columns, ", "))
	}
	statements := []string{"CREATE VIEW " + name + " AS " + strings.Join(selects, " UNION ALL ")}
	if h.Stack == apptest.Production {
		statements = append(statements, "DO $$ BEGIN IF EXISTS (SELECT FROM pg_roles WHERE rolname = 'supplyhub_api') THEN "+
			"GRANT SELECT ON "+name+" TO supplyhub_api; END IF; END $$")
	}
	for _, statement := range statements {
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return name
}

// Behind a pooler a process reads on two connections. A view of others holds one of them for as long as it takes.
func TestPooler_pages_of_one_client_do_not_wait_for_another_s_slow_view(t *testing.T) {
	t.Parallel()
	for _, mode := range []string{"session", "transaction"} {
		t.Run(mode, func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, apptest.Production, apptest.Options{Pooler: mode})
			quick := newTrackerClient(t, h)
			quick.load(t, tracked("A", 1, "2026-11-20", nil, nil))
			slow := newTrackerClient(t, h, "--views", viewOf(t, h, "slow", map[string]string{
				"material": "(SELECT 'x'::text FROM pg_advisory_xact_lock_shared(7))"}))
			tx, err := openDatabase(t, h).BeginTx(t.Context(), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback() }()
			if _, err := tx.ExecContext(t.Context(), `SELECT pg_advisory_xact_lock(7)`); err != nil { // the view waits for it
				t.Fatal(err)
			}
			ended := make(chan struct{})
			go func() { defer close(ended); slow.get(t, trackers) }()
			wait.Until(t, "the view is being read", func() (reads bool) {
				err := tx.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT 1 FROM pg_locks WHERE NOT granted
					AND locktype = 'advisory' AND objid = 7)`).Scan(&reads)
				return err == nil && reads
			})
			if _, names := quick.page(t, trackers); names != "A" {
				t.Errorf("the page is %s", names)
			}
			select {
			case <-ended:
				t.Error("the page came only when the view's time was up")
			default:
			}
			_ = tx.Rollback()
			<-ended
		})
	}
}
