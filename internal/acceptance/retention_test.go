package acceptance

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

type pruned struct{ Requests, Events int64 }

func TestRetention_deletes_what_is_finished_and_old_and_nothing_else(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			receiver := apptest.NewReceiver(t, nil)
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			old, chosen := submit(t, s, nil), submit(t, s, nil)
			becomes(t, s, old, "estimated")
			want(t, selectEstimate(t, s, chosen, becomes(t, s, chosen, "estimated").Estimates[0]["estimate_id"]), http.StatusOK)
			ill := h.Supplier(t, "--webhook-url", "http://127.0.0.1:9") // is still being tried
			tried := submit(t, ill, nil)
			becomes(t, ill, tried, "estimated")
			wait.Until(t, "the receiver has both", func() bool { return accounted(t, h).Deliveries["pending"] == 1 })
			if p := apptest.MustCommand[pruned](t, h, "retention", "run", "--days", "1"); p != (pruned{}) {
				t.Fatalf("of what is new: %+v", p)
			}
			db := openDatabase(t, h)
			for _, statement := range []string{
				`UPDATE material_requests SET created_at = 1, updated_at = 1`,
				`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, shard, due_at,
					created_at, updated_at)
					SELECT supplier_id, 7777, 'enqueued', digest, shop_code, body, trace_id, uid + 1000000, shard,
						9000000000000000, 1, 1
					FROM material_requests LIMIT 1`,
			} {
				if _, err := db.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			recent := submit(t, s, nil)
			becomes(t, s, recent, "estimated")
			if p := apptest.MustCommand[pruned](t, h, "retention", "run", "--days", "1"); p != (pruned{2, 2}) {
				t.Fatalf("of what is old: %+v, want two requests with their events", p)
			}
			for _, id := range []int64{old, chosen} {
				wantProblem(t, s.Do(t, http.MethodGet, requestPath(id), nil), http.StatusNotFound)
			}
			read(t, s, recent)
			read(t, ill, tried) // its delivery is pending since a moment ago
			for table, rows := range map[string]int{"material_requests": 3, "webhook_events": 2, "webhook_deliveries": 4} {
				var n int
				if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&n); err != nil || n != rows {
					t.Errorf("%s has %d rows, want %d: %v", table, n, rows, err)
				}
			}
			if _, err := db.ExecContext(t.Context(), `DELETE FROM material_requests WHERE id = 7777`); err != nil {
				t.Fatal(err)
			}
			accounted(t, h)
			// the id is free again
			want(t, s.Do(t, http.MethodPost, requests, request(old, object{"shop_code": "another"})), http.StatusCreated)
			for _, command := range [][]string{{"retention", "run"}, {"retention", "run", "--days", "0"}} {
				if _, errOut, code := h.Command(t, command...); code != 2 || errOut == "" {
					t.Errorf("api %v: exit code %d %q, want 2", command, code, errOut)
				}
			}
		})
	}
}

func TestRetention_which_ended_a_delivery_lets_its_requests_id_be_estimated_again(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1,
				Env: map[string]string{"WEBHOOK_RETRY_SCHEDULE": "1h"}})
			db := openDatabase(t, h)
			s := h.Supplier(t, "--webhook-url", "http://127.0.0.1:9")
			id := submit(t, s, nil)
			former := becomes(t, s, id, "estimated")
			settled(t, db, s)
			for _, table := range []string{"material_requests", "webhook_deliveries"} {
				_, err := db.ExecContext(t.Context(), `UPDATE `+table+` SET created_at = 1, updated_at = 1`)
				if err != nil {
					t.Fatal(err)
				}
			}
			if p := apptest.MustCommand[pruned](t, h, "retention", "run", "--days", "1"); p != (pruned{1, 1}) {
				t.Fatalf("retention deleted %+v", p)
			}
			want(t, s.Do(t, http.MethodPost, requests, request(id, object{"shop_code": "another"})), 201)
			if r := becomes(t, s, id, "estimated"); r.Estimates[0]["estimate_id"] == former.Estimates[0]["estimate_id"] {
				t.Errorf("it has its former life's estimates %v", r.Estimates)
			}
		})
	}
}

func TestRetention_ends_what_no_receiver_took_and_keeps_nothing_for_another_supplier(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			broken, status := switchable(t, http.StatusServiceUnavailable)
			fine := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
			paused, removed := h.Supplier(t, "--webhook-url", broken.URL), h.Supplier(t, "--webhook-url", broken.URL)
			inactive, waits := h.Supplier(t, "--webhook-url", broken.URL), h.Supplier(t)
			all := map[*apptest.Supplier]int64{}
			for _, s := range []*apptest.Supplier{paused, removed, inactive} {
				want(t, s.Do(t, http.MethodPost, receiverPath+"/pause", nil), http.StatusOK)
			}
			for _, s := range []*apptest.Supplier{fine, paused, removed, inactive, waits} {
				all[s] = submit(t, s, nil)
				becomes(t, s, all[s], "estimated")
			}
			want(t, removed.Do(t, http.MethodDelete, receiverPath, nil), http.StatusNoContent)
			apptest.MustCommand[any](t, h, "supplier", "deactivate", inactive.ID)
			reaches(t, fine, "delivered", 1)
			if n := accounted(t, h).Deliveries["pending"]; n != 3 {
				t.Fatalf("%d deliveries are pending", n)
			}
			db := openDatabase(t, h)
			enqueue := func(status string, at int) {
				t.Helper()
				_, err := db.ExecContext(t.Context(), fmt.Sprintf(`UPDATE material_requests
					SET status = '%s', due_at = nullif(%d, 0) WHERE supplier_id = '%s'`, status, at, waits.ID))
				if err != nil {
					t.Fatal(err)
				}
			}
			enqueue("enqueued", 9000000000000000)
			before := time.Now().UTC()
			kept := submit(t, paused, nil) // made later
			becomes(t, paused, kept, "estimated")
			if p := apptest.MustCommand[pruned](t, h, "retention", "run", "--before",
				before.Format(time.RFC3339Nano)); p != (pruned{4, 4}) {
				t.Errorf("deleted are %+v, want four requests with their events", p)
			}
			for _, s := range []*apptest.Supplier{fine, paused, removed} {
				wantProblem(t, s.Do(t, http.MethodGet, requestPath(all[s]), nil), http.StatusNotFound)
			}
			read(t, waits, all[waits])
			enqueue("estimated", 0)
			if left := accounted(t, h).Deliveries; left["pending"] != 1 || left["dead"] != 0 {
				t.Errorf("deliveries %v", left)
			}
			status.Store(http.StatusOK)
			want(t, paused.Do(t, http.MethodPost, receiverPath+"/resume", nil), http.StatusOK)
			if d := reaches(t, paused, "delivered", 1)[0]; d.RequestID != kept {
				t.Errorf("delivered is %+v", d)
			}
		})
	}
}

func TestRetention_runs_by_itself_where_RETENTION_DAYS_is_set(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s := h.Supplier(t)
	id := submit(t, s, nil)
	becomes(t, s, id, "estimated")
	if _, err := openDatabase(t, h).ExecContext(t.Context(),
		`UPDATE material_requests SET created_at = 1, updated_at = 1`); err != nil {
		t.Fatal(err)
	}
	if code := h.APIs[0].Stop(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	h.Env["RETENTION_DAYS"] = "30"
	h.APIs[0].Restart()
	wait.Until(t, "it is deleted", func() bool {
		return s.Do(t, http.MethodGet, requestPath(id),
			nil).Status == http.StatusNotFound
	})
}

func TestRetention_drops_partitions_at_once_and_keeps_one_with_pending_work(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1, LeastRights: true,
		Env: map[string]string{"WEBHOOK_RETRY_SCHEDULE": strings.TrimSuffix(strings.Repeat("1s,", 600), ",")}})
	var repaired atomic.Bool
	receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		if !repaired.Load() {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	s := h.Supplier(t, "--webhook-url", receiver.URL)
	old := submit(t, s, nil)
	becomes(t, s, old, "estimated")
	fine := h.Supplier(t)
	finished := submit(t, fine, nil)
	becomes(t, fine, finished, "estimated")
	db := openDatabase(t, h)
	run := func(statement string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, later := range []string{"0", "86400", "86400", "172800"} { // partitions of two days; requests are in the second
		run(`SELECT advance_webhook_partitions((extract(epoch FROM now())::bigint + ` + later + `) * 1000000, 1)`)
	}
	run(`UPDATE webhook_partitions SET closed_at = 2 WHERE name = '0'`)
	run(`UPDATE webhook_partitions SET opened_at = 2 WHERE name <> '0' AND opened_at IS NOT NULL`)
	run(`UPDATE webhook_partitions SET closed_at = (extract(epoch FROM now())::bigint - 7200) * 1000000
		WHERE name <> '0' AND closed_at IS NOT NULL`)
	run(`UPDATE material_requests SET created_at = 1, updated_at = 1`)
	recent := submit(t, s, nil)
	becomes(t, s, recent, "estimated")
	run(`GRANT DELETE ON material_requests, material_rounds, webhook_events, webhook_deliveries, webhook_attempts
		TO supplyhub_api`)
	run(`GRANT SELECT, UPDATE (kept) ON webhook_partitions TO supplyhub_api`)
	run(`GRANT EXECUTE ON FUNCTION advance_webhook_partitions(bigint, bigint), drop_webhook_partition(bigint),
		delete_webhook_table() TO supplyhub_api`)
	h.Env["RETENTION_DAYS"] = "30"
	stop(t, h.APIs[0])
	h.APIs[0].Restart()
	wait.Until(t, "the log says that the old events are kept", func() bool {
		return strings.Contains(h.APIs[0].Log(), "deliveries are pending")
	})
	if status, detail, _ := doctor(t, h, "api", nil).said(t, "retention"); status != "warning" ||
		!strings.Contains(detail, "0 (deliveries are pending)") {
		t.Errorf("the doctor says %s: %s", status, detail)
	}
	read(t, s, old)
	wait.Until(t, "what another supplier has finished in it is gone", func() bool {
		return fine.Do(t, http.MethodGet, requestPath(finished), nil).Status == http.StatusNotFound
	})
	repaired.Store(true)
	wait.Until(t, "all is delivered", func() bool { return accounted(t, h).Deliveries["pending"] == 0 })
	run(`UPDATE material_requests SET updated_at = 1 WHERE created_at = 1`)
	stop(t, h.APIs[0])
	h.APIs[0].Restart()
	wait.Until(t, "the partition is gone", func() bool {
		var there bool
		err := db.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT FROM webhook_partitions WHERE name = '0')`).Scan(&there)
		if err != nil {
			t.Fatal(err)
		}
		return !there
	})
	wantProblem(t, s.Do(t, http.MethodGet, requestPath(old), nil), http.StatusNotFound)
	read(t, s, recent)
	becomes(t, s, submit(t, s, nil), "estimated")
	if ledger := accounted(t, h); ledger.Deliveries["delivered"] < 2 {
		t.Errorf("deliveries %v", ledger.Deliveries)
	}
}
