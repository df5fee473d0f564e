package acceptance

import (
	"net/http"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// A planner that knows the tables as empty keeps plans that go through them whole: the newest installation is the slowest.
func TestFresh_database_is_read_by_few_rows_a_request(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	db := openDatabase(t, h)
	for _, table := range []string{"material_requests", "webhook_events", "webhook_deliveries", "webhook_attempts"} {
		for _, command := range []string{"VACUUM ", "ANALYZE "} { // as autovacuum does once it has come by
			if _, err := db.ExecContext(t.Context(), command+table); err != nil {
				t.Fatal(err)
			}
		}
	}
	receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	s := h.Supplier(t, "--webhook-url", receiver.URL)
	const callers, each = 32, 60
	var calls sync.WaitGroup
	for range callers {
		calls.Go(func() {
			for range each {
				if a := s.Do(t, http.MethodPost, requests, request(nextID(), nil)); a.Status != http.StatusCreated {
					t.Errorf("status %d", a.Status)
				}
			}
		})
	}
	calls.Wait()
	apptest.Eventually(t, "everything is delivered", func() bool { return len(receiver.Calls()) == callers*each })
	for _, p := range append(h.Workers, h.APIs...) {
		p.Stop() // their connections write their statistics down when they end
	}
	var read float64
	apptest.Eventually(t, "the statistics are there", func() bool {
		err := db.QueryRowContext(t.Context(), `SELECT sum(seq_tup_read + idx_tup_fetch) / (SELECT count(*) FROM material_requests) FROM pg_stat_user_tables
			WHERE relname IN ('material_requests', 'webhook_events', 'webhook_deliveries', 'webhook_attempts')`).Scan(&read)
		return err == nil && read > 1
	})
	if read > 30 { // it is 10 to 12; with one such plan 46
		t.Errorf("%.0f rows were read for each request", read)
	}
}
