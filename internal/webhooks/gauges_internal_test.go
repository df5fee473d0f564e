package webhooks

import (
	"fmt"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// What every process asks each five seconds goes by the indexes of what is not delivered, whatever state the table is in.
func TestPlans_of_the_gauges_never_walk_through_what_is_delivered(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	statements := map[string]string{
		fmt.Sprintf(countedDeliveries, areDead): "webhook_deliveries_lost", fmt.Sprintf(countedDeliveries, areFailed): "webhook_deliveries_lost",
		fmt.Sprintf(countedDeliveries, areWaiting): "webhook_deliveries_due", fmt.Sprintf(countedDeliveries, areTried): "webhook_deliveries_attempted", ownDeliveries: "webhook_deliveries_due",
	}
	for _, state := range []string{
		`SELECT 1`, `ANALYZE webhook_deliveries`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series, next_attempt_at, created_at, updated_at)
			SELECT 'msg_1' || n, n, 1, 'own', 'acme', n, CASE WHEN n % 100 = 0 THEN 'dead' WHEN n % 100 = 1 THEN 'pending' ELSE 'delivered' END, 1, 1, n, n, n FROM generate_series(1, 20000) AS n`,
		`ANALYZE webhook_deliveries`,
	} {
		if err := db.From(t.Context()).Exec(state).Error; err != nil {
			t.Fatal(err)
		}
		for statement, index := range statements {
			plan := databasetest.Plan(t, db, strings.Replace(statement, "?", "$1", 1), mostCounted)
			if !strings.Contains(plan, index) || strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "_pkey") {
				t.Errorf("after %.30s: %s\n%s", state, statement, plan)
			}
		}
	}
}

func TestStanding_counts_what_is_not_delivered_and_since_when(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for i, row := range []string{`'own', 'pending', NULL`, `'own', 'pending', NULL`, `'acme', 'pending', 7`, `'acme', 'dead', NULL`, `'acme', 'failed', NULL`, `'own', 'delivered', NULL`} {
			err := db.From(t.Context()).Exec(`INSERT INTO webhook_deliveries (id, uid, round, destination, status, worker, supplier_id, request_id, attempts, series, next_attempt_at, created_at, updated_at)
				VALUES (?, 1, 1, `+row+`, 'acme', 1, 1, 1, 1, ?, 1)`, fmt.Sprint(i), int64(i+1)*1_000_000).Error
			if err != nil {
				t.Fatal(err)
			}
		}
		d := &Dispatcher{store: &store{db}}
		s, err := d.Standing(t.Context())
		if err != nil || s.Pending != 3 || s.Dead != 1 || s.Failed != 1 || s.Own != 2 || s.OwnSince.Unix() != 1 {
			t.Errorf("got %+v, %v", s, err)
		}
	})
}
