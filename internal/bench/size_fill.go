package main

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/pack"
)

const microsOfDay = 24 * 60 * 60 * 1_000_000

// advance does what the api does at a day's beginning, and once more, which makes the next day's partition ahead.
func advance(ctx context.Context, conn *pgx.Conn, day int64) error {
	for range 2 {
		if _, err := conn.Exec(ctx, `SELECT advance_webhook_partitions($1, 1)`, day*microsOfDay); err != nil {
			return err
		}
	}
	return nil
}

// fillUp stores what two suppliers' years of requests would leave, each of ten days in a partition of its own.
func (s *stack) fillUp(ctx context.Context, stored int64) error {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	today := time.Now().Unix() * 1_000_000 / microsOfDay
	for day := range int64(sizeDays + 1) { // the last is of what is measured
		if err := advance(ctx, conn, today+day); err != nil {
			return err
		}
		if day > 0 {
			err = fillDay(ctx, conn, (day-1)*stored/sizeDays+1, day*stored/sizeDays)
		}
		if err != nil {
			return err
		}
	}
	return advance(ctx, conn, today+sizeDays+1)
}

// fillFew stores ten requests of each of the suppliers, whose ids come after the measured one's: of one supplier alone
// each entry would be the last of its index, which PostgreSQL inserts without a search.
func (s *stack) fillFew(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	return fillDay(ctx, conn, 1, 1000)
}

// settle leaves the days that are over as they are where it runs for days: vacuumed and frozen, with nothing under way.
func (s *stack) settle(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range []string{`VACUUM (FREEZE, ANALYZE)`, `CHECKPOINT`} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return rests(ctx, conn, `SELECT NOT EXISTS (SELECT FROM pg_stat_activity WHERE backend_type = 'autovacuum worker')`)
}

// rests waits until the query says true.
func rests(ctx context.Context, conn *pgx.Conn, query string) error {
	for done := false; !done; time.Sleep(time.Second) {
		if err := conn.QueryRow(ctx, query).Scan(&done); err != nil {
			return err
		}
	}
	return nil
}

// fillDay stores the requests of these numbers in the open partition, whose webhook-ids begin like its first, as far
// apart as ten million in ten days are: one half is sent to suppliers' receivers, the other to the own endpoint.
func fillDay(ctx context.Context, conn *pgx.Conn, from, to int64) error {
	for _, statement := range []string{
		`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, received,
			created_at, updated_at, estimates, unavailable)
			SELECT 'sup_zz_' || n % 100, n, 'estimated', decode(md5(n::text) || md5(n::text), 'hex'), 'SP-0001', $4, 'trace',
				$3 + n, 1, 1700000000000000 + n * 86400, 1700000000000000 + n * 86400, '[]', '[]'
			FROM generate_series($1::bigint, $2::bigint) AS n`,
		`INSERT INTO webhook_events (uid, round, trace_id, body, created_at, supplier_id)
			SELECT $3 + n, 1, 'trace', substr($4::bytea, 1, 200), 1700000000000000 + n * 86400, 'sup_zz_' || n % 100
			FROM generate_series($1::bigint, $2::bigint) AS n`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at, last_started_at, last_duration_us, last_status)
			SELECT webhook_border($3) || lpad(n::text, 9, '0'), $3 + n, 1,
				CASE n % 2 WHEN 0 THEN 'own' ELSE 'sup_zz_' || n % 100 END, 'sup_zz_' || n % 100, n, 'delivered', 2, 2, n,
				1700000000000000 + n * 86400, n, n, 1000, 200
			FROM generate_series($1::bigint, $2::bigint) AS n WHERE length($4::bytea) > 0`,
		`INSERT INTO webhook_attempts (delivery_id, supplier_id, number, started_at, duration_us, status)
			SELECT webhook_border($3) || lpad(n::text, 9, '0'), 'sup_zz_' || n % 100, 1, n, 1000, 503
			FROM generate_series($1::bigint, $2::bigint) AS n WHERE length($4::bytea) > 0`,
	} {
		var first int64
		if err := conn.QueryRow(ctx, `SELECT greatest(max(first_uid), 1::bigint << 40) FROM webhook_partitions
			WHERE opened_at IS NOT NULL`).Scan(&first); err != nil {
			return err
		}
		if _, err := conn.Exec(ctx, statement, from, to, first, pack.Pack(body(1))); err != nil {
			return fmt.Errorf("%.40s: %w", statement, err)
		}
	}
	return nil
}

// dropDays drops the oldest of the filled partitions while requests come in and are delivered, each between two runs
// without a drop and as the first that the processes' connections see, as where one day ends a day, and then deletes
// the tables of one of them.
func (p *pipeline) dropDays(ctx context.Context, requests int64) error {
	p.plan.Receiver = p.receiver
	var without, with []loadResult
	for range droppedDays {
		if err := p.restart(ctx); err != nil {
			return err
		}
		before, err := p.run(ctx, loadDuration, pacedRate)
		if err != nil {
			return err
		}
		var d droppedDay
		during, err := p.meanwhile(ctx, func(ctx context.Context) (err error) {
			d, err = p.dropOldest(ctx)
			return err
		})
		if err != nil {
			return err
		}
		after, err := p.run(ctx, loadDuration, pacedRate)
		if err != nil {
			return err
		}
		fmt.Printf("one day of %d, %d requests, dropped in %s, %s of it to commit, at try %d, while %d/s come in\n", sizeDays,
			requests, milliseconds(d.took), milliseconds(d.committed), d.tries, pacedRate)
		fmt.Printf("  p99 before, meanwhile and after it: POST %s, %s, %s, delivery %s, %s, %s\n", milliseconds(before.P99),
			milliseconds(during.P99), milliseconds(after.P99), milliseconds(before.Delivery99),
			milliseconds(during.Delivery99), milliseconds(after.Delivery99))
		without, with = append(without, before, after), append(with, during)
	}
	compareAll("dropped", without, with)
	var deleted []loadResult
	for range 3 { // its attempts, deliveries and events
		during, err := p.meanwhile(ctx, p.deleteTable)
		if err != nil {
			return err
		}
		deleted = append(deleted, during)
	}
	compareAll("its tables deleted", without, deleted)
	p.plan.Receiver = ""
	return p.stop(p.worker)
}

// restart has a new api and a new worker, whose connections know no statement yet.
func (p *pipeline) restart(ctx context.Context) (err error) {
	if err := p.stop(p.api); err != nil {
		return err
	}
	if p.worker != nil {
		if err := p.stop(p.worker); err != nil {
			return err
		}
	}
	if err := p.tidy(ctx); err != nil {
		return err
	}
	if p.plan.Address, p.api, err = p.startOwn(); err != nil {
		return err
	}
	return p.startWorker(ctx)
}

// meanwhile runs the load and does something in its middle.
func (p *pipeline) meanwhile(ctx context.Context, something func(context.Context) error) (r loadResult, err error) {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		r, err = p.run(ctx, loadDuration, pacedRate)
		return err
	})
	group.Go(func() error {
		time.Sleep(loadDuration / 2)
		return something(ctx)
	})
	err = group.Wait()
	return r, err
}

// p99s are the figures of a run by which it is compared.
var p99s = [...]struct {
	name string
	of   func(loadResult) time.Duration
}{
	{"POST answered, p99", func(r loadResult) time.Duration { return r.P99 }},
	{"delivered, p99", func(r loadResult) time.Duration { return r.Delivery99 }},
}

// compareAll prints how the p99 of some runs scatters beside that of runs without it.
func compareAll(what string, without, with []loadResult) {
	for _, f := range p99s {
		before, during := sortedBy(f.of, without), sortedBy(f.of, with)
		middle := before[len(before)/2]
		fmt.Printf("  %-20s without %s   %s %s   %.2f times in the middle\n", f.name, scatter(before, 2*middle), what,
			scatter(during, 2*middle), float64(during[len(during)/2])/float64(middle))
	}
}

func sortedBy(p99 func(loadResult) time.Duration, runs []loadResult) []time.Duration {
	sorted := make([]time.Duration, len(runs))
	for i, run := range runs {
		sorted[i] = p99(run)
	}
	slices.Sort(sorted)
	return sorted
}

func scatter(sorted []time.Duration, limit time.Duration) string {
	first, _ := slices.BinarySearch(sorted, limit)
	return fmt.Sprintf("%s (%s to %s), %d of %d over twice the middle without", milliseconds(sorted[len(sorted)/2]),
		milliseconds(sorted[0]), milliseconds(sorted[len(sorted)-1]), len(sorted)-first, len(sorted))
}

// deleteTable deletes the next table of what was dropped, as the api does one a minute.
func (s *stack) deleteTable(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	_, err = conn.Exec(ctx, `SELECT delete_webhook_table()`)
	return err
}

// droppedDay is how dropping a partition went.
type droppedDay struct {
	took, committed time.Duration
	tries           int
}

// dropOldest drops the oldest partition, as retention does when its requests are deleted, and returns how long it took,
// and its commit; it tries again where it would make others wait.
func (s *stack) dropOldest(ctx context.Context) (d droppedDay, err error) {
	db, err := database.Open(ctx, database.Config{URL: s.database(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return d, err
	}
	defer db.Close()
	why := ""
	for d.tries = 1; d.tries <= dropTries; d.tries++ {
		begin, dropped := time.Now(), time.Time{}
		err := db.InTx(ctx, "drop the oldest day", func(ctx context.Context) error {
			defer func() { dropped = time.Now() }()
			return db.From(ctx).Raw(`SELECT drop_webhook_partition((SELECT min(first_uid) FROM webhook_partitions
				WHERE first_uid > 0))`).Scan(&why).Error
		})
		if err != nil || why == "" {
			d.took, d.committed = time.Since(begin), time.Since(dropped)
			return d, err
		}
		time.Sleep(time.Second / 2)
	}
	return d, fmt.Errorf("the oldest partition could not be dropped while requests came in: %s", why)
}
