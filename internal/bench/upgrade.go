package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

// upgradeBench fills a database of an earlier version, the checkout that OTHER names, and measures how long it takes to
// bring it to this tree's schema while processes of that version serve, and what their callers notice of it.
func upgradeBench(ctx context.Context) error {
	stored, err := storedCount()
	if err != nil {
		return err
	}
	tree, err := required("OTHER")
	if err != nil {
		return err
	}
	s, err := newStackOf(ctx, tree)
	if s != nil {
		defer s.close()
	}
	if err != nil {
		return err
	}
	p, err := s.started(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := p.fillEarlier(ctx, stored); err != nil {
		return err
	}
	fmt.Printf("%d requests, events, deliveries and attempts of %s stored in %.0f s\n", stored, filepath.Base(tree),
		time.Since(begin).Seconds())
	if err := p.startWorker(ctx); err != nil {
		return err
	}
	before, err := p.run(ctx, loadDuration, pacedRate)
	if err != nil {
		return err
	}
	worst, took, err := p.migrated(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("brought to this schema in %.1f s while %d/s came in and none was refused or lost; p99 of 10 s at worst:\n",
		took.Seconds(), pacedRate)
	compare("", before, worst)
	after, err := p.run(ctx, loadDuration, pacedRate)
	if err != nil {
		return err
	}
	compare(", afterwards", before, after)
	return p.replaced(ctx)
}

func compare(what string, before, during loadResult) {
	for _, f := range p99s {
		without, with := f.of(before), f.of(during)
		fmt.Printf("  %-20s %s without   %s with it   %.2f times%s\n", f.name, milliseconds(without), milliseconds(with),
			float64(with)/float64(without), what)
	}
}

// migrated migrates while requests come in, and returns the highest p99s of ten seconds.
func (p *pipeline) migrated(ctx context.Context) (worst loadResult, took time.Duration, err error) {
	next := filepath.Join(p.dir, "next")
	if err := os.Mkdir(next, 0o700); err != nil {
		return worst, 0, err
	}
	if err := build(ctx, "", next, "./cmd/api"); err != nil {
		return worst, 0, err
	}
	migration, ctx := errgroup.WithContext(ctx)
	done := make(chan struct{})
	migration.Go(func() error {
		defer close(done)
		migrate := exec.CommandContext(ctx, filepath.Join(next, "api"), "migrate")
		migrate.Env, migrate.Stderr = p.env, os.Stderr
		begin := time.Now()
		err := migrate.Run()
		took = time.Since(begin)
		return err
	})
	for running := true; running; {
		r, err := p.run(ctx, loadDuration, pacedRate)
		if err != nil {
			return worst, 0, errors.Join(err, migration.Wait())
		}
		worst.P99, worst.Delivery99 = max(worst.P99, r.P99), max(worst.Delivery99, r.Delivery99)
		select {
		case <-done:
			running = false
		default:
		}
	}
	return worst, took, migration.Wait()
}

// replaced stops the version before and lets this tree's api finish what a migration leaves to it.
func (p *pipeline) replaced(ctx context.Context) error {
	if err := errors.Join(p.stop(p.worker), p.stop(p.api)); err != nil {
		return err
	}
	begin := time.Now()
	if err := os.Rename(filepath.Join(p.dir, "next", "api"), filepath.Join(p.dir, "api")); err != nil {
		return err
	}
	_, api, err := p.startAPI()
	if err != nil {
		return err
	}
	ready := time.Since(begin)
	if err := p.untilSplit(ctx); err != nil {
		return err
	}
	fmt.Printf("this tree's api was ready after %.1f s and had split the lists' totals into blocks after %.1f s\n",
		ready.Seconds(), time.Since(begin).Seconds())
	return p.stop(api)
}

// fillEarlier stores what fillUp does in tables as they were before partitions.
func (s *stack) fillEarlier(ctx context.Context, stored int64) error {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	var first int64
	if err := conn.QueryRow(ctx, `SELECT setval('request_numbers', nextval('request_numbers') + $1) - $1`, stored).
		Scan(&first); err != nil {
		return err
	}
	for from := int64(1); from <= stored; from += stored / sizeDays {
		for _, statement := range []string{
			`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, received,
				created_at, updated_at, estimates, unavailable, counted)
				SELECT 'sup_zz_' || n % 100, n, 'estimated', decode(md5(n::text) || md5(n::text), 'hex'), 'SP-0001', $4, 'trace',
					$3 + n, 1, 1700000000000000 + n * 86400, 1700000000000000 + n * 86400, '[]', '[]', true
				FROM generate_series($1::bigint, $2::bigint) AS n`,
			`INSERT INTO webhook_events (uid, round, trace_id, body, created_at)
				SELECT $3 + n, 1, 'trace', convert_to(left($4, 200), 'UTF8'), 1700000000000000 + n * 86400
				FROM generate_series($1::bigint, $2::bigint) AS n`,
			`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
				next_attempt_at, created_at, updated_at, last_started_at, last_duration_us, last_status, counted)
				SELECT 'msg_1' || lpad(n::text, 21, '0'), $3 + n, 1, CASE n % 2 WHEN 0 THEN 'own' ELSE 'sup_zz_' || n % 100 END,
					'sup_zz_' || n % 100, n, 'delivered', 2, 2, n, 1700000000000000 + n * 86400, n, n, 1000, 200, true
				FROM generate_series($1::bigint, $2::bigint) AS n WHERE length($4::text) > 0`,
			`INSERT INTO webhook_attempts (delivery_id, number, started_at, duration_us, status)
				SELECT 'msg_1' || lpad(n::text, 21, '0'), 1, n, 1000, 503 FROM generate_series($1::bigint, $2::bigint) AS n
				WHERE $3::bigint > 0 AND length($4::text) > 0`,
		} {
			to := min(from+stored/sizeDays-1, stored)
			if _, err := conn.Exec(ctx, statement, from, to, first, string(body(1))); err != nil {
				return fmt.Errorf("%.40s: %w", statement, err)
			}
		}
	}
	return s.tidy(ctx)
}
