package figures

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// store is the figures of processes and the gauges that one of them counts.
type store struct{ db *database.DB }

// add adds to what the process has of the step.
func (s store) add(ctx context.Context, step, process int64, itself Process, did Sample) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `INSERT INTO figures (step, process, accepted, delivered, role, version,
			started_at) VALUES ($1, $2, $3, $4, $5, $6, $7)
		ON CONFLICT (step, process) DO UPDATE SET accepted = figures.accepted + excluded.accepted,
			delivered = figures.delivered + excluded.delivered`, step, process, did.Accepted, did.Delivered,
		itself.Role, itself.Version, itself.Since.UnixMicro())
	return errs.Doing("keep figures", err)
}

// processes returns those of the steps, the oldest of each role first.
func (s store) processes(ctx context.Context, from, to int64) ([]Process, error) {
	type row struct {
		Process
		since int64
	}
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT DISTINCT process, role, version, started_at FROM figures
		WHERE step BETWEEN $1 AND $2 AND role <> '' ORDER BY role, started_at, process`, []any{from, to},
		func(r *row) []any { return []any{new(int64), &r.Role, &r.Version, &r.since} })
	found := make([]Process, len(rows))
	for i, r := range rows {
		found[i] = r.Process
		found[i].Since = time.UnixMicro(r.since).UTC()
	}
	return found, errs.Doing("read which processes run", err)
}

// trim deletes the steps up to the given one.
func (s store) trim(ctx context.Context, step int64) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM figures WHERE step <= $1`, step)
	return errs.Doing("trim figures", err)
}

// since sums the processes up, from the given step on, and adds what was counted; by the steps.
func (s store) since(ctx context.Context, step int64) (map[int64]Point, error) {
	type row struct {
		Point
		step, accepted, delivered, oldest int64
	}
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT step, CAST(sum(accepted) AS bigint),
			CAST(sum(delivered) AS bigint), CAST(sum(enqueued) AS bigint), CAST(sum(oldest_us) AS bigint),
			CAST(sum(pending) AS bigint), CAST(sum(dead) AS bigint), CAST(sum(failing) AS bigint), CAST(sum(paused) AS bigint)
		FROM (SELECT step, accepted, delivered, 0 AS enqueued, 0 AS oldest_us, 0 AS pending, 0 AS dead, 0 AS failing,
				0 AS paused FROM figures WHERE step >= $1
			UNION ALL SELECT step, 0, 0, enqueued, oldest_us, pending, dead, failing, paused
				FROM gauges WHERE step >= $1) AS parts
		GROUP BY step`, []any{step}, func(r *row) []any {
		return []any{&r.step, &r.accepted, &r.delivered, &r.Backlog, &r.oldest, &r.Waiting, &r.Dead, &r.Failing, &r.Paused}
	})
	points := make(map[int64]Point, len(rows))
	for _, r := range rows {
		r.Accepted, r.Delivered = perSecond(r.accepted), perSecond(r.delivered)
		r.Oldest = time.Duration(r.oldest) * time.Microsecond
		points[r.step] = r.Point
	}
	return points, errs.Doing("read figures", err)
}

// most is up to where rows are counted, as the contract has it.
const most = 100_000

// counting reads each figure by the index that has just its rows, in its order and up to `most` of them. The conditions
// repeat those of the indexes. The oldest enqueued request, and the oldest pending delivery to a supplier that can be
// called, are among the 10,000 that were accepted first; since when it is one is aboutSince in package deliveries. The
// last place is for the deliveries due to one receiver of r.
const counting = `
	SELECT 'enqueued' AS what, count(*) AS n FROM (SELECT 1 FROM material_requests
		WHERE uid > 0 AND status = 'enqueued' ORDER BY uid LIMIT 100000) AS c
	UNION ALL SELECT 'since', coalesce(min(since), 0) FROM (SELECT coalesce(round_at, created_at) AS since
		FROM material_requests WHERE uid > 0 AND status = 'enqueued' ORDER BY uid LIMIT 10000) AS c
	UNION ALL SELECT 'failed requests', count(*) FROM (SELECT 1 FROM material_requests
		WHERE uid > 0 AND status = 'failed' ORDER BY uid LIMIT 100000) AS c
	UNION ALL SELECT 'pending', count(*) FROM (SELECT 1 FROM webhook_deliveries
		WHERE worker IS NOT NULL ORDER BY worker LIMIT 100000) AS c
	UNION ALL SELECT 'pending', count(*) FROM (SELECT 1 FROM ` + open + ` AND status = 'pending' LIMIT 100000) AS c
	UNION ALL SELECT 'pending since', coalesce(min(CASE WHEN destination = 'own' OR (SELECT active AND webhook_url <> ''
			FROM suppliers WHERE id = destination) THEN since END), 0)
		FROM (SELECT destination, min(since) AS since FROM (SELECT destination, CASE WHEN series = 0 THEN updated_at
				WHEN series = 1 AND attempts > 1 THEN last_started_at ELSE created_at END AS since
			FROM ` + open + ` AND status = 'pending' ORDER BY uid LIMIT 10000) AS c GROUP BY destination) AS c
	UNION ALL SELECT 'dead', count(*) FROM (SELECT 1 FROM ` + open + ` AND status = 'dead' LIMIT 100000) AS c
	UNION ALL SELECT 'failed', count(*) FROM (SELECT 1 FROM ` + open + ` AND status = 'failed' LIMIT 100000) AS c
	UNION ALL SELECT 'receivers', count(*) FROM (SELECT 1 FROM suppliers
		WHERE active AND webhook_url <> '' ORDER BY id LIMIT 300000) AS c
	UNION ALL SELECT 'due', count(*) FROM (SELECT 1 FROM material_requests
		WHERE due_at IS NOT NULL AND due_at <= $1 ORDER BY shard, supplier_id, due_at LIMIT 100000) AS c
	UNION ALL SELECT 'due', count(*) FROM (SELECT 1 FROM ` + due + ` AND destination = 'own' LIMIT 100000) AS c
	UNION ALL SELECT 'due', count(*) FROM (SELECT 1 FROM (SELECT supplier_id FROM webhook_receivers
			WHERE due_at IS NOT NULL AND paused_by = '' AND due_at <= $1 ORDER BY shard, due_at LIMIT 100000) AS r
		CROSS JOIN %s LIMIT 100000) AS c
	UNION ALL SELECT 'failing', count(*) FROM ` + ill + ` AND r.paused_by = ''
	UNION ALL SELECT 'paused', count(*) FROM ` + ill + ` AND r.paused_by <> ''`

const (
	open = `webhook_deliveries WHERE status <> 'delivered' AND worker IS NULL AND uid > 0`
	due  = `webhook_deliveries WHERE status = 'pending' AND worker IS NULL AND next_attempt_at <= $1`
	toIt = due + ` AND destination = r.supplier_id`

	// ill are the receivers r that fail or are paused. A deactivated supplier, or one without an address, has none. No
	// plan begins with the suppliers: a limited table is read as it is.
	ill = `(SELECT supplier_id, paused_by FROM webhook_receivers
			WHERE failing_since IS NOT NULL OR paused_by <> '' ORDER BY supplier_id LIMIT 300000) AS r
		JOIN suppliers AS s ON s.id = r.supplier_id WHERE s.active AND s.webhook_url <> ''`
)

// counting returns the statement. PostgreSQL would read what is due to all receivers once for each; SQLite joins in the
// order that is written, and spread tables are joined where they are.
func (s store) counting() string {
	if s.db.Engine() == database.SQLite || s.db.Spread() {
		return fmt.Sprintf(counting, toIt)
	}
	return fmt.Sprintf(counting, `LATERAL (SELECT 1 FROM `+toIt+` ORDER BY next_attempt_at LIMIT 100000) AS d`)
}

// count counts all of it as one moment has it. A receiver that is paused does not count as failing.
func (s store) count(ctx context.Context, now time.Time) (c Counts, err error) {
	type figure struct {
		what string
		n    int64
	}
	list, err := database.Query(ctx, s.db.SQL(ctx), s.counting(), []any{now.UnixMicro()},
		func(f *figure) []any { return []any{&f.what, &f.n} })
	if err != nil {
		return c, fmt.Errorf("count what all processes show: %w", err)
	}
	found := map[string]int64{}
	for _, f := range list {
		found[f.what] += f.n
	}
	capped := func(what string) int64 { return min(found[what], most) }
	c = Counts{
		At: now, Enqueued: capped("enqueued"), FailedRequests: capped("failed requests"), Pending: capped("pending"),
		Dead: capped("dead"), Failed: capped("failed"), Failing: capped("failing"), Paused: capped("paused"),
		Active:  min(found["receivers"]-found["failing"]-found["paused"], most),
		Backlog: capped("due"),
	}
	since := func(what string) (waited time.Duration) {
		if at := found[what]; at > 0 {
			waited = max(now.Sub(time.UnixMicro(at)), 0)
		}
		return waited
	}
	c.Oldest, c.OldestPending = since("since"), since("pending since")
	return c, nil
}

const countsColumns = `counted_at, enqueued, failed_requests, oldest_us, pending, pending_us, dead, failed, active,
	failing, paused, backlog`

// newest returns the counts of the latest step; zeros when nothing was counted yet.
func (s store) newest(ctx context.Context) (c Counts, err error) {
	var at, oldest, oldestPending int64
	found, err := database.One(ctx, s.db.ReaderSQL(ctx),
		`SELECT `+countsColumns+` FROM gauges ORDER BY step DESC LIMIT 1`, nil, &at, &c.Enqueued, &c.FailedRequests, &oldest,
		&c.Pending, &oldestPending, &c.Dead, &c.Failed, &c.Active, &c.Failing, &c.Paused, &c.Backlog)
	if err != nil || !found {
		return Counts{}, errs.Doing("read what is counted", err)
	}
	c.At, c.Oldest = time.UnixMicro(at), time.Duration(oldest)*time.Microsecond
	c.OldestPending = time.Duration(oldestPending) * time.Microsecond
	return c, nil
}

// keep writes the counts of a step. Later steps were written by a clock that was ahead.
func (s store) keep(ctx context.Context, c Counts) error {
	step := stepOf(c.At)
	_, err := database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM gauges WHERE step >= $1 OR step <= $2`, step, step-kept)
	if err == nil {
		_, err = database.Exec(ctx, s.db.SQL(ctx), `INSERT INTO gauges (step, `+countsColumns+`)
			VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)`,
			step, c.At.UnixMicro(), c.Enqueued, c.FailedRequests,
			c.Oldest.Microseconds(), c.Pending, c.OldestPending.Microseconds(), c.Dead, c.Failed, c.Active, c.Failing, c.Paused,
			c.Backlog)
	}
	return errs.Doing("keep what is counted", err)
}
