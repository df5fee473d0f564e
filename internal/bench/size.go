package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/jackc/pgx/v5"
)

const storedRequests = 10_000_000 // with as many deliveries and attempts

// size measures intake, reads and the sweeper's statement over a large database and over a young one, in turn as the
// machine's speed drifts.
func size(ctx context.Context, s *stack) error {
	full, err := s.unworked(ctx)
	if err != nil {
		return err
	}
	return onStack(ctx, func(ctx context.Context, beside *stack) error {
		young, err := beside.unworked(ctx)
		if err != nil {
			return err
		}
		return young.besideFull(ctx, full)
	})
}

// besideFull fills the other database and measures both.
func (p *pipeline) besideFull(ctx context.Context, full *pipeline) error {
	begin := time.Now()
	if err := full.fillUp(ctx); err != nil {
		return err
	}
	fmt.Printf("%d requests, deliveries and attempts stored in %.0f s\n", storedRequests, time.Since(begin).Seconds())
	const turns = 3
	var rates [2][3]float64
	for range turns {
		for i, one := range []*pipeline{p, full} {
			if err := one.warm(ctx); err != nil {
				return err
			}
			measured, err := one.sizes(ctx)
			if err != nil {
				return err
			}
			for n, rate := range measured {
				rates[i][n] += rate / turns
			}
		}
	}
	for i, name := range []string{"accepted/s", "status reads/s", "sweeps/s"} {
		fmt.Printf("  %-16s %8.0f of a young database   %8.0f of the full one   %.2f times\n", name, rates[0][i],
			rates[1][i], rates[1][i]/rates[0][i])
	}
	return nil
}

// unworked returns a pipeline without a worker: nothing is delivered.
func (s *stack) unworked(ctx context.Context) (*pipeline, error) {
	p, err := s.started(ctx)
	if err != nil {
		return nil, err
	}
	p.plan.Receiver = ""
	return p, nil
}

// sizes returns the accepted requests, the status reads and the sweeper's statements a second.
func (p *pipeline) sizes(ctx context.Context) (rates [3]float64, err error) {
	if err := p.tidy(ctx); err != nil {
		return rates, err
	}
	first := p.nextID
	result, err := p.run(ctx, bareDuration, 0)
	if err != nil {
		return rates, err
	}
	rates[0] = result.perSecond()
	paths := make([]string, pathsOfRun)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s/%d", intakePath, first+1+rand.Int64N(result.Accepted))
	}
	read, _, err := p.measured(ctx, loadPlan{Address: p.plan.Address, Paths: paths,
		Header: "Authorization: Bearer " + p.plan.Token})
	if err != nil {
		return rates, err
	}
	rates[1] = read.perSecond()
	rates[2], err = p.sweeps(ctx)
	return rates, err
}

func (s *stack) sweeps(ctx context.Context) (float64, error) {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	begin := time.Now()
	const times = 10_000
	for range times {
		_, err := conn.Exec(ctx, `SELECT supplier_id, id FROM material_requests
			WHERE ticket < $1 ORDER BY ticket LIMIT 128 FOR UPDATE SKIP LOCKED`, 0)
		if err != nil {
			return 0, err
		}
	}
	return times / time.Since(begin).Seconds(), nil
}

// fillUp stores what two suppliers' years of requests would leave.
func (s *stack) fillUp(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range []string{
		`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, received,
			created_at, updated_at, estimates, unavailable, noted)
			SELECT 'sup_old_' || n % 100, n, 'estimated', decode(md5(n::text) || md5(n::text), 'hex'), 'SP-0001', $2, 'trace',
				nextval('request_numbers'), 1, 1700000000000000 + n, 1700000000000000 + n, '[]', '[]', true
			FROM generate_series(1, $1::bigint) AS n`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at, last_started_at, last_duration_us, last_status)
			SELECT 'msg_1' || lpad(n::text, 21, '0'), n, 1, 'own', 'sup_old_' || n % 100, n, 'delivered', 2, 2,
				n, n, n, n, 1000, 200
			FROM generate_series(1, $1::bigint) AS n WHERE length($2::text) > 0`,
		`INSERT INTO webhook_attempts (delivery_id, number, started_at, duration_us, status)
			SELECT 'msg_1' || lpad(n::text, 21, '0'), 1, n, 1000, 503 FROM generate_series(1, $1::bigint) AS n
			WHERE length($2::text) > 0`,
	} {
		if _, err := conn.Exec(ctx, statement, storedRequests, string(body(1))); err != nil {
			return err
		}
	}
	_, err = conn.Exec(ctx, requestTotals)
	return err
}
