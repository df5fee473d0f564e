package webhooks

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// What every process asks each five seconds goes by the indexes of what is on its way or ill, whatever state the tables
// are in.
func TestPlans_of_the_gauges_never_walk_through_what_is_well(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	for _, state := range []string{
		`SELECT 1`, `ANALYZE webhook_deliveries, webhook_receivers, suppliers`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at)
			SELECT 'msg_1000' || n, n, 1, 'own', 'acme', n,
				CASE WHEN n % 100 = 0 THEN 'dead' WHEN n % 100 = 1 THEN 'pending' ELSE 'delivered' END, 1, 1, n, n, n
			FROM generate_series(1, 20000) AS n`,
		`INSERT INTO suppliers (id, name, webhook_url, access_ttl, refresh_ttl, scopes, created_at, updated_at)
			SELECT 's' || n, '', 'https://x', 1, 1, '', 1, 1 FROM generate_series(1, 20000) AS n`,
		`INSERT INTO webhook_receivers (supplier_id, shard, failing_since, updated_at)
			SELECT 's' || n, 1, CASE WHEN n % 1000 = 0 THEN 1 END, 1 FROM generate_series(1, 20000) AS n`,
		`ANALYZE webhook_deliveries, webhook_receivers, suppliers`,
	} {
		if err := db.From(t.Context()).Exec(state).Error; err != nil {
			t.Fatal(err)
		}
		plan := databasetest.Plan(t, db, strings.Replace(ownSince, "?", "$1", 1), ownLooked)
		if !strings.Contains(plan, "webhook_deliveries_0_destination_next_attempt_at_idx") ||
			strings.Contains(plan, "Seq Scan") || strings.Contains(plan, "_pkey") {
			t.Errorf("after %.30s: %s", state, plan)
		}
		plan = databasetest.Plan(t, db, illReceivers)
		if !strings.Contains(plan, "webhook_receivers_ill") || !strings.Contains(plan, "Nested Loop") ||
			strings.Contains(plan, "Seq Scan") {
			t.Errorf("after %.30s: %s", state, plan)
		}
	}
	if ill, err := (&Dispatcher{store: &store{db}}).IllReceivers(t.Context()); err != nil || ill.Failing != 20 {
		t.Errorf("%+v, %v", ill, err)
	}
}

func TestIllReceivers_are_those_of_active_suppliers_with_an_address_and_paused_goes_before_failing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		for i, row := range []struct {
			url, paused string
			active      bool
			failing     any
		}{
			{"https://x", "", true, nil}, {"https://x", "", true, 1}, {"https://x", "", true, 1},
			{"https://x", "operator", true, 1}, {"https://x", "supplier", true, nil},
			{"", "", true, 1}, {"", "service", true, nil}, {"https://x", "", false, 1},
		} {
			id := fmt.Sprint("s", i)
			exec := db.From(t.Context()).Exec
			err := exec(`INSERT INTO suppliers (id, name, webhook_url, active, access_ttl, refresh_ttl, scopes, created_at,
				updated_at) VALUES (?, '', ?, ?, 1, 1, '', 1, 1)`, id, row.url, row.active).Error
			if err == nil {
				err = exec(`INSERT INTO webhook_receivers (supplier_id, shard, failing_since, paused_by, updated_at)
					VALUES (?, 1, ?, ?, 1)`, id, row.failing, row.paused).Error
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		if ill, err := (&Dispatcher{store: &store{db}}).IllReceivers(t.Context()); err != nil ||
			ill != (Ill{Failing: 2, Paused: 2}) {
			t.Errorf("%+v, %v", ill, err)
		}
	})
}

func TestOwnSince_is_when_the_oldest_that_waits_for_the_own_endpoint_was_made(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := &Dispatcher{store: &store{db}}
		if at, err := d.OwnSince(t.Context()); err != nil || !at.IsZero() {
			t.Errorf("of none: %v, %v", at, err)
		}
		for i, row := range []string{`'own', 'delivered', NULL`, `'acme', 'pending', NULL`, `'own', 'pending', NULL`,
			`'own', 'pending', NULL`} {
			err := db.From(t.Context()).Exec(`INSERT INTO webhook_deliveries (id, uid, round, destination, status, worker,
				supplier_id, request_id, attempts, series, next_attempt_at, created_at, updated_at)
				VALUES (?, 1, 1, `+row+`, 'acme', 1, 1, 1, 1, ?, 1)`, fmt.Sprint(i), int64(i+1)*1_000_000).Error
			if err != nil {
				t.Fatal(err)
			}
		}
		if at, err := d.OwnSince(t.Context()); err != nil || !at.Equal(time.Unix(3, 0)) {
			t.Errorf("%v, %v", at, err)
		}
	})
}
