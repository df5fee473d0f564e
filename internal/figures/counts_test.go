package figures_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/figures"
)

const (
	insertRequest = `INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid,
		created_at, updated_at) VALUES ('s', ?, ?, '', '', '', '', 1, 1, 1)`
	insertDelivery = `INSERT INTO webhook_deliveries (id, uid, round, destination, status, supplier_id, request_id,
		attempts, series, next_attempt_at, created_at, updated_at)
		VALUES (?, 1, 1, 'own', ?, 's', 1, 1, 1, 1, 1, 1)`
	insertSupplier = `INSERT INTO suppliers (id, name, webhook_url, active, access_ttl, refresh_ttl, scopes, created_at,
		updated_at) VALUES (?, '', ?, ?, 1, 1, '', 1, 1)`
)

// TestCounts_are_what_a_count_over_the_tables_gives makes changes of all kinds, in single rows and in many, beside a
// reader.
func TestCounts_are_what_a_count_over_the_tables_gives(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		reading, stop := context.WithCancel(t.Context())
		var reader sync.WaitGroup
		reader.Go(func() {
			for reading.Err() == nil {
				if _, err := figures.ReadCounts(t.Context(), db); err != nil {
					t.Error(err)
				}
			}
		})
		change(t, db)
		stop()
		reader.Wait()
		n, err := figures.ReadCounts(t.Context(), db)
		if err != nil {
			t.Fatal(err)
		}
		for what, got := range map[string]int64{
			`material_requests WHERE status = 'enqueued'`: n.Enqueued,
			`material_requests WHERE status = 'failed'`:   n.FailedRequests,
			`webhook_deliveries WHERE status = 'pending'`: n.Pending, `webhook_deliveries WHERE status = 'dead'`: n.Dead,
			`webhook_deliveries WHERE status = 'failed'`:   n.Failed,
			`suppliers WHERE active AND webhook_url <> ''`: n.Receivers,
		} {
			var want int64
			if err := db.From(t.Context()).Raw(`SELECT count(*) FROM ` + what).Scan(&want).Error; err != nil {
				t.Fatal(err)
			}
			if got != want || want == 0 {
				t.Errorf("%s: %d, counted %d", what, got, want)
			}
		}
	})
}

func change(t *testing.T, db *database.DB) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	exec := func(statement string, args ...any) {
		t.Helper()
		if err := db.From(t.Context()).Exec(statement, args...).Error; err != nil {
			t.Fatal(err)
		}
	}
	requests, deliveries := []string{"enqueued", "estimated", "failed"}, []string{"pending", "delivered", "dead", "failed"}
	for i := range 200 {
		exec(insertRequest+` ON CONFLICT DO NOTHING`, i*3/4, requests[random.IntN(3)])
		exec(insertDelivery, fmt.Sprint(i), deliveries[random.IntN(4)])
		exec(insertSupplier, fmt.Sprint(i), []string{"", "https://x"}[random.IntN(2)], random.IntN(2) == 0)
		exec(`UPDATE material_requests SET status = ? WHERE id % 10 = ?`, requests[random.IntN(3)], random.IntN(10))
		exec(`UPDATE webhook_deliveries SET status = ?, attempts = 2 WHERE request_id = 1 AND id = ?`,
			deliveries[random.IntN(4)], fmt.Sprint(random.IntN(200)))
		exec(`UPDATE suppliers SET active = ?, webhook_url = ? WHERE id = ?`, random.IntN(2) == 0,
			[]string{"", "https://x"}[random.IntN(2)], fmt.Sprint(random.IntN(200)))
	}
	exec(`DELETE FROM material_requests WHERE id % 7 = 3`)
	exec(`DELETE FROM webhook_deliveries WHERE id LIKE '1%'`)
	exec(`DELETE FROM suppliers WHERE id LIKE '1%'`)
	undone := db.InTx(t.Context(), "test", func(ctx context.Context) error {
		db.From(ctx).Exec(`DELETE FROM material_requests`)
		return context.Canceled
	})
	if undone == nil {
		t.Error("the transaction was committed")
	}
}

func TestCounts_are_read_from_few_rows_whatever_was_written(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	for i := range 300 {
		if err := db.From(t.Context()).Exec(insertRequest, i, "enqueued").Error; err != nil {
			t.Fatal(err)
		}
	}
	if n, err := figures.ReadCounts(t.Context(), db); err != nil || n.Enqueued != 300 {
		t.Fatalf("%+v, %v", n, err)
	}
	var rows int64
	if err := db.From(t.Context()).Raw(`SELECT count(*) FROM status_counts`).Scan(&rows).Error; err != nil || rows > 20 {
		t.Errorf("%d rows are left, %v", rows, err)
	}
	plan := databasetest.Plan(t, db, `SELECT kind, status, sum(n) FROM status_counts GROUP BY kind, status`)
	if strings.Contains(plan, "material_requests") || strings.Contains(plan, "webhook_deliveries") {
		t.Error(plan)
	}
}
