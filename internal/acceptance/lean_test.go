package acceptance

import (
	"net/http"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// The version before reads estimates in the request's row alone. Until an upgrade is finished they are stored there.
func TestEstimates_are_stored_once_where_no_earlier_version_reads_them_and_are_read_alike(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			db := openDatabase(t, h)
			inRow := func(id int64) (in bool) {
				t.Helper()
				err := db.QueryRowContext(t.Context(), `SELECT estimates IS NOT NULL FROM material_requests
					WHERE id = $1`, id).Scan(&in)
				if err != nil {
					t.Fatal(err)
				}
				return in
			}
			if _, err := db.ExecContext(t.Context(), `DELETE FROM settings WHERE key = 'lean_rows'`); err != nil {
				t.Fatal(err) // an upgraded installation
			}
			s := h.Supplier(t)
			before := submit(t, s, nil)
			becomes(t, s, before, "estimated")
			if !inRow(before) {
				t.Error("an upgrade is not finished and the version before would find no estimates")
			}
			if _, stderr, code := h.Command(t, "migrate", "--finish"); code != 0 {
				t.Fatalf("migrate --finish: %s", stderr)
			}
			var after int64
			apptest.Eventually(t, "estimates are stored once", func() bool {
				after = submit(t, s, nil)
				becomes(t, s, after, "estimated")
				return !inRow(after)
			})
			for _, id := range []int64{before, after} {
				estimates := read(t, s, id).Estimates
				if len(estimates) == 0 || estimates[0]["estimate_id"] == nil {
					t.Fatalf("the estimates of %d are %v", id, estimates)
				}
				want(t, selectEstimate(t, s, id, estimates[0]["estimate_id"]), http.StatusOK)
				if r := read(t, s, id); r.Status != "selected" || len(r.Estimates) != len(estimates) {
					t.Errorf("after the selection %+v", r)
				}
			}
			again := submit(t, s, nil)
			first := becomes(t, s, again, "estimated").Estimates[0]["estimate_id"]
			want(t, s.Do(t, http.MethodPost, requestPath(again)+"/re-estimate", nil), http.StatusAccepted)
			apptest.Eventually(t, "fresh estimates are read", func() bool {
				r := read(t, s, again)
				return r.Status == "estimated" && r.Estimates[0]["estimate_id"] != first
			})
			accounted(t, h)
		})
	}
}
