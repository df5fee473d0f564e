package databasetest

import (
	"context"
	"fmt"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
)

// strayCounts finds the statuses whose kept count is not that of the tables, all as one moment saw them.
const strayCounts = `SELECT coalesce(kept.kind, rows.kind) || ' ' || coalesce(kept.status, rows.status) AS status,
		coalesce(kept.n, 0) AS kept, coalesce(rows.n, 0) AS counted
	FROM (SELECT kind, status, sum(n) AS n FROM (SELECT kind, status, n FROM status_counts
		WHERE kind <> 'receiver'%s) AS counts
		GROUP BY kind, status) kept
	FULL JOIN (
		SELECT 'request' AS kind, status, count(*) AS n FROM material_requests WHERE status IN ('enqueued', 'failed')
		GROUP BY status
		UNION ALL
		SELECT 'delivery', status, count(*) FROM webhook_deliveries WHERE status IN ('pending', 'dead', 'failed')
		GROUP BY status
	) rows ON rows.kind = kept.kind AND rows.status = kept.status
	WHERE coalesce(kept.n, 0) <> coalesce(rows.n, 0)`

// strayLists does the same for the lists' totals.
const strayLists = `SELECT list || ' of ' || owner || ' ' || status AS status, sum(kept) AS kept,
	sum(counted) AS counted FROM (
		SELECT list, owner, status, n AS kept, 0 AS counted FROM list_counts
		UNION ALL SELECT list, owner, became, n, 0 FROM list_changes WHERE became <> ''
			AND (list <> 'deliveries' OR owner <> 'own')
		UNION ALL SELECT list, owner, was, -n, 0 FROM list_changes WHERE was <> ''
			AND (list <> 'deliveries' OR owner <> 'own')
		UNION ALL SELECT list, owner, '', n, 0 FROM list_changes WHERE was = '' AND (list <> 'deliveries' OR owner <> 'own')
		UNION ALL SELECT list, owner, '', -n, 0 FROM list_changes WHERE became = ''
		UNION ALL SELECT 'requests', supplier_id, status, 0, 1 FROM material_requests
		UNION ALL SELECT 'requests', supplier_id, '', 0, 1 FROM material_requests
		UNION ALL SELECT 'orders', '', 'selected', 0, 1 FROM material_requests WHERE selected_at IS NOT NULL
		UNION ALL SELECT 'orders', '', '', 0, 1 FROM material_requests WHERE selected_at IS NOT NULL
		UNION ALL SELECT 'deliveries', destination, status, 0, 1 FROM webhook_deliveries WHERE destination <> 'own'
		UNION ALL SELECT 'deliveries', destination, '', 0, 1 FROM webhook_deliveries WHERE destination <> 'own') AS sides
	GROUP BY list, owner, status HAVING sum(kept) <> sum(counted)`

// CountsAgree fails the test when, at its end, the counts that are kept by status are not what the tables hold. None
// are kept where the tables are spread.
func CountsAgree(tb testing.TB, db *database.DB) {
	tb.Helper()
	tb.Cleanup(func() {
		if db.Spread() {
			return
		}
		noted := ""
		if db.Engine() == database.Postgres {
			noted = ` UNION ALL ` + database.NotedStatuses("list_changes")
		}
		for _, statement := range []string{fmt.Sprintf(strayCounts, noted), strayLists} {
			var stray []struct {
				Status        string
				Kept, Counted int64
			}
			if err := db.From(context.Background()).Raw(statement).Scan(&stray).Error; err != nil {
				tb.Errorf("compare counts by status: %v", err)
			}
			for _, s := range stray {
				tb.Errorf("%s: %d are kept, %d are there", s.Status, s.Kept, s.Counted)
			}
		}
	})
}

// Fold adds all that is noted to the lists' counts, as a process that serves does once a second.
func Fold(ctx context.Context, tb testing.TB, db *database.DB, lists ...database.List) {
	tb.Helper()
	for more := true; more; {
		var err error
		if more, err = db.Fold(ctx, lists...); err != nil {
			tb.Fatal(err)
		}
	}
}
