package figures

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/database"
)

// Counts are how many there are now. The database keeps them with each change, so reading costs the same however much
// is stored.
type Counts struct {
	Enqueued, FailedRequests int64
	Pending, Dead, Failed    int64 // deliveries
	Receivers                int64 // active suppliers with a receiver
}

// foldCounts puts what single statements have added together when it is much; it deletes and adds the same.
const foldCounts = `WITH taken AS (
		DELETE FROM status_counts
		WHERE (SELECT count(*) FROM (SELECT 1 FROM status_counts LIMIT 101) AS counted) > 100
		RETURNING kind, status, n)
	INSERT INTO status_counts SELECT kind, status, sum(n) FROM taken GROUP BY kind, status`

const readCounts = `SELECT kind, status, sum(n) AS n FROM status_counts GROUP BY kind, status`

// readNotedCounts adds what the hot statements have noted and no api has added yet.
var readNotedCounts = `SELECT kind, status, sum(n) AS n FROM (
		SELECT kind, status, n FROM status_counts
		UNION ALL ` + database.NotedStatuses("list_changes") + `) AS counts
	GROUP BY kind, status`

// spreadCounts counts the rows that are on several servers; the suppliers are not.
const spreadCounts = `SELECT 'request' AS kind, status, count(*) AS n FROM material_requests
		WHERE status IN ('enqueued', 'failed') GROUP BY status
	UNION ALL SELECT 'delivery', status, count(*) FROM webhook_deliveries
		WHERE status IN ('pending', 'dead', 'failed') GROUP BY status
	UNION ALL SELECT kind, status, sum(n) FROM status_counts WHERE kind = 'receiver' GROUP BY kind, status`

// ReadCounts returns the counts of this moment.
func ReadCounts(ctx context.Context, db *database.DB) (c Counts, err error) {
	statement := readCounts
	if db.Engine() == database.Postgres {
		if statement = readNotedCounts; db.Spread() {
			statement = spreadCounts
		}
		if err := db.InTx(ctx, "fold gauges", func(ctx context.Context) error { return fold(ctx, db) }); err != nil {
			return c, fmt.Errorf("put status counts together: %w", err)
		}
	}
	var rows []struct {
		Kind, Status string
		N            int64
	}
	if err := db.Reader(ctx).Raw(statement).Scan(&rows).Error; err != nil {
		return c, fmt.Errorf("read status counts: %w", database.Translate(err))
	}
	for _, r := range rows {
		if place := c.place(r.Kind, r.Status); place != nil {
			*place = r.N
		}
	}
	return c, nil
}

// fold leaves the work to the process that is at it.
func fold(ctx context.Context, db *database.DB) error {
	held, err := db.TryLock(ctx, "status counts")
	if err != nil || !held {
		return err
	}
	return db.From(ctx).Exec(foldCounts).Error
}

func (c *Counts) place(kind, status string) *int64 {
	switch kind + " " + status {
	case "request enqueued":
		return &c.Enqueued
	case "request failed":
		return &c.FailedRequests
	case "delivery pending":
		return &c.Pending
	case "delivery dead":
		return &c.Dead
	case "delivery failed":
		return &c.Failed
	case "receiver all":
		return &c.Receivers
	default:
		return nil
	}
}
