package figures_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/figures"
)

var start = time.Date(2026, 11, 24, 12, 0, 3, 0, time.UTC)

// counter is a process that counts, and its time.
type counter struct {
	*figures.Recorder
	now time.Time
}

func newCounter(db *database.DB) *counter {
	c := &counter{now: start}
	c.Recorder = figures.New(db, func() time.Time { return c.now },
		func() (figures.Sample, error) { return figures.Sample{}, nil })
	return c
}

func (c *counter) counts(ctx context.Context, tb testing.TB, now time.Time) figures.Counts {
	tb.Helper()
	c.now = now
	counts, err := c.Counts(ctx)
	if err != nil {
		tb.Fatal(err)
	}
	return counts
}

func exec(ctx context.Context, tb testing.TB, db *database.DB, statement string, args ...any) {
	tb.Helper()
	if _, err := db.SQL(ctx).ExecContext(ctx, statement, args...); err != nil {
		tb.Fatal(err)
	}
}

// numbers is a table n of the numbers from 1 to the argument.
func numbers(db *database.DB) string {
	if db.Engine() == database.Postgres {
		return `generate_series(1, $1::bigint) AS n(n)`
	}
	return `(WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r WHERE n < $1) SELECT n FROM r) AS n`
}

// stored stores so many requests, deliveries and receivers, of all states in turn.
func stored(ctx context.Context, tb testing.TB, db *database.DB, n int) {
	tb.Helper()
	exec(ctx, tb, db, `INSERT INTO material_requests (supplier_id, id, status, failure, digest, shop_code, body, trace_id,
			uid, created_at, updated_at)
		SELECT 's', n, CASE n % 4 WHEN 0 THEN 'estimated' WHEN 1 THEN 'failed' ELSE 'enqueued' END, '', '', '', '', '', n,
			n, n FROM `+numbers(db)+` WHERE true`, n)
	exec(ctx, tb, db, `INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status,
			worker, attempts, series, next_attempt_at, created_at, updated_at)
		SELECT 'msg_000000000' || (1000000 + n), n, 1, 'own', 's', n, CASE n % 5 WHEN 0 THEN 'delivered' WHEN 1 THEN 'dead' WHEN 2 THEN 'failed'
			ELSE 'pending' END, CASE n % 5 WHEN 4 THEN 7 END, 1, 1, n, n, n FROM `+numbers(db)+` WHERE true`, n)
}

func receiver(ctx context.Context, tb testing.TB, db *database.DB, url, paused string, active bool, failing any) {
	tb.Helper()
	id := fmt.Sprint(url, paused, active, failing)
	exec(ctx, tb, db, `INSERT INTO suppliers (id, name, webhook_url, active, access_ttl, refresh_ttl, scopes, created_at,
		updated_at) VALUES ($1, '', $2, $3, 1, 1, '', 1, 1)`, id, url, active)
	exec(ctx, tb, db, `INSERT INTO webhook_receivers (supplier_id, shard, failing_since, paused_by, updated_at)
		VALUES ($1, 1, $2, $3, 1)`, id, failing, paused)
}

func TestCounts_are_those_of_the_tables_and_the_same_in_every_process(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx := t.Context()
		stored(ctx, t, db, 1000)
		receiver(ctx, t, db, "https://x", "", true, nil)
		receiver(ctx, t, db, "https://x", "", true, 1)
		receiver(ctx, t, db, "https://x", "operator", true, 1) // a paused one does not count as failing
		receiver(ctx, t, db, "https://x", "supplier", true, nil)
		receiver(ctx, t, db, "", "", true, 1) // none has an address
		receiver(ctx, t, db, "https://x", "", false, 1)

		first, second := newCounter(db), newCounter(db)
		got := first.counts(ctx, t, start)
		want := figures.Counts{At: start, Enqueued: 500, FailedRequests: 250, Oldest: start.Sub(time.UnixMicro(2)),
			Pending: 400, Dead: 200, Failed: 200, Active: 1, Failing: 1, Paused: 2}
		if !got.At.Equal(want.At) {
			t.Errorf("counted at %s, want %s", got.At, want.At)
		}
		got.At = want.At
		if got != want {
			t.Errorf("counted %+v, want %+v", got, want)
		}
		exec(ctx, t, db, `DELETE FROM material_requests`)
		if again := second.counts(ctx, t, start.Add(time.Second)); again.Enqueued != 500 {
			t.Errorf("another process shows %d in the same step, want 500", again.Enqueued)
		}
		if next := second.counts(ctx, t, start.Add(10*time.Second)); next.Enqueued != 0 || next.Oldest != 0 {
			t.Errorf("a step later %+v", next)
		}
	})
}

func TestCounts_end_at_100000(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	stored(t.Context(), t, db, 210_000)
	got := newCounter(db).counts(t.Context(), t, start)
	if got.Enqueued != 100_000 || got.FailedRequests != 52_500 || got.Pending != 84_000 || got.Dead != 42_000 {
		t.Errorf("%+v", got)
	}
}

// What cannot be counted is left out; an old figure would be taken for the present.
func TestCounts_are_not_shown_when_they_are_older_than_15_seconds(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, c := t.Context(), newCounter(db)
		c.counts(ctx, t, start)
		stop := errors.New("stop")
		held := make(chan struct{})
		release := make(chan struct{})
		done := make(chan error, 1)
		if db.Engine() == database.SQLite { // one process alone writes: its clock jumps instead
			c.now = start.Add(16 * time.Second)
			if counts, err := c.Counts(ctx); err != nil || !counts.At.Equal(c.now) {
				t.Errorf("%+v, %v", counts, err)
			}
			return
		}
		go func() {
			done <- db.InTx(ctx, "test", func(ctx context.Context) error { // the process that counts hangs
				_, err := db.TryLock(ctx, "gauges")
				close(held)
				<-release
				return errors.Join(err, stop)
			})
		}()
		<-held
		if counts := c.counts(ctx, t, start.Add(12*time.Second)); !counts.At.Equal(start) {
			t.Errorf("12 s later those of %s are shown", counts.At)
		}
		c.now = start.Add(16 * time.Second)
		if counts, err := c.Counts(ctx); err == nil || counts != (figures.Counts{}) || c.Newest() != counts {
			t.Errorf("16 s later %+v is shown: %v", counts, err)
		}
		close(release) // it dies
		if err := <-done; !errors.Is(err, stop) {
			t.Fatal(err)
		}
		if counts := c.counts(ctx, t, c.now); !counts.At.Equal(c.now) {
			t.Errorf("after it died those of %s are shown", counts.At)
		}
	})
}

func TestCounting_walks_over_no_table_of_requests_or_deliveries(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	stored(t.Context(), t, db, 20_000)
	exec(t.Context(), t, db, `UPDATE material_requests SET status = 'estimated' WHERE id % 100 > 0`)
	exec(t.Context(), t, db, `UPDATE webhook_deliveries SET status = 'delivered', worker = NULL WHERE request_id % 100 > 0`)
	for _, state := range []string{``, `ANALYZE material_requests, webhook_deliveries`} {
		if state != "" {
			exec(t.Context(), t, db, state)
		}
		plan := databasetest.Plan(t, db, figures.Counting)
		if strings.Contains(plan, "Seq Scan on material") || strings.Contains(plan, "Seq Scan on webhook_deliveries") {
			t.Errorf("%q: %s", state, plan)
		}
	}
}
