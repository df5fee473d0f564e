package acceptance

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

type verification struct {
	OK                   bool
	Requests, Deliveries map[string]int64
	Faults               []string
}

// accounted fails unless `api verify` accounts for everything. Results that could not be written during an outage are
// written seconds after it, and their deliveries stay in a worker's hands until then.
func accounted(t *testing.T, h *apptest.Hub) (v verification) {
	t.Helper()
	wait.Until(t, "no result is waiting to be written", func() bool {
		v = apptest.MustCommand[verification](t, h, "verify")
		return !slices.ContainsFunc(v.Faults, func(f string) bool { return strings.Contains(f, "in a worker's hands") })
	})
	if !v.OK || len(v.Faults) != 0 {
		t.Fatalf("not accounted for: %v", v.Faults)
	}
	return v
}

func TestVerify_accounts_for_everything_and_names_every_fault(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			s := h.Supplier(t)
			var ids [4]int64
			for i := range ids {
				ids[i] = submit(t, s, nil)
				becomes(t, s, ids[i], "estimated")
			}
			want(t, selectEstimate(t, s, ids[0], becomes(t, s, ids[0], "estimated").Estimates[0]["estimate_id"]), 200)
			if v := accounted(t, h); v.Requests["estimated"] != 3 || v.Requests["selected"] != 1 {
				t.Fatalf("the ledger is %+v", v)
			}
			db := openDatabase(t, h)
			settled(t, db, s)
			for _, damage := range []string{
				`UPDATE material_requests SET estimates = NULL, received = 0 WHERE id = %d`,
				`UPDATE material_requests SET status = 'enqueued' WHERE id = %d`,
				`UPDATE webhook_deliveries SET last_status = NULL, last_started_at = NULL WHERE request_id = %d`,
				`DELETE FROM webhook_events WHERE uid = (SELECT uid FROM material_requests WHERE id = %d)`,
			} {
				id := ids[0]
				copy(ids[:], ids[1:])
				if _, err := db.ExecContext(t.Context(), fmt.Sprintf(damage, id)); err != nil {
					t.Fatal(err)
				}
			}
			v := apptest.MustCommand[verification](t, h, "verify")
			text := strings.Join(v.Faults, "\n")
			for part, times := range map[string]int{"has no estimates": 2, "nothing brings its estimates": 1,
				"its last attempt was not answered 2xx": 1, "lacks attempts": 1, "has no event": 1} {
				if strings.Count(text, part) != times { // a request without its event has no estimates
					t.Errorf("%q is not named %d times:\n%s", part, times, text)
				}
			}
			if v.OK || len(v.Faults) != 6 {
				t.Errorf("the ledger is %+v", v)
			}
		})
	}
}
