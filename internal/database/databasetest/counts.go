package databasetest

import (
	"context"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
)

// strayCounts finds the statuses whose kept count is not that of the tables, all as one moment saw them.
const strayCounts = `SELECT coalesce(kept.kind, rows.kind) || ' ' || coalesce(kept.status, rows.status) AS status,
		coalesce(kept.n, 0) AS kept, coalesce(rows.n, 0) AS counted
	FROM (SELECT kind, status, sum(n) AS n FROM status_counts WHERE kind <> 'receiver' GROUP BY kind, status) kept
	FULL JOIN (
		SELECT 'request' AS kind, status, count(*) AS n FROM material_requests WHERE status IN ('enqueued', 'failed')
		GROUP BY status
		UNION ALL
		SELECT 'delivery', status, count(*) FROM webhook_deliveries WHERE status IN ('pending', 'dead', 'failed')
		GROUP BY status
	) rows ON rows.kind = kept.kind AND rows.status = kept.status
	WHERE coalesce(kept.n, 0) <> coalesce(rows.n, 0)`

// CountsAgree fails the test when, at its end, the counts that are kept by status are not what the tables hold.
func CountsAgree(tb testing.TB, db *database.DB) {
	tb.Helper()
	tb.Cleanup(func() {
		var stray []struct {
			Status        string
			Kept, Counted int64
		}
		if err := db.From(context.Background()).Raw(strayCounts).Scan(&stray).Error; err != nil {
			tb.Errorf("compare counts by status: %v", err)
		}
		for _, s := range stray {
			tb.Errorf("%s: %d are kept, %d are there", s.Status, s.Kept, s.Counted)
		}
	})
}
