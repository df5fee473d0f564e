package main

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	storedRequests = 10_000_000 // with as many events, deliveries and attempts, in as many days as there are partitions
	sizeRequests   = "SIZE_REQUESTS"
	sizeDays       = 10
	droppedDays    = 3
)

// size measures intake, reads and the sweeper's statement over a large database and over a young one, in turn as the
// machine's speed drifts, and what dropping a day of the large one costs who uses it.
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
	stored, err := strconv.ParseInt(cmp.Or(os.Getenv(sizeRequests), strconv.Itoa(storedRequests)), 10, 64)
	if err != nil {
		return fmt.Errorf("%s: %w", sizeRequests, err)
	}
	begin := time.Now()
	if err := full.fillUp(ctx, stored); err != nil {
		return err
	}
	fmt.Printf("%d requests, events, deliveries and attempts of %d days stored in %.0f s\n", stored, sizeDays,
		time.Since(begin).Seconds())
	begin = time.Now()
	if err := full.settle(ctx); err != nil {
		return err
	}
	fmt.Printf("vacuumed and indexed anew, as a service does that runs for days, in %.0f s\n", time.Since(begin).Seconds())
	if err := full.dropDays(ctx, stored/sizeDays); err != nil {
		return err
	}
	const turns = 4
	var rates [2][3]float64
	pipelines, order := [...]*pipeline{p, full}, []int{0, 1}
	for range turns {
		for _, i := range order {
			one := pipelines[i]
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
		slices.Reverse(order)
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
	p.receiver, p.plan.Receiver = p.plan.Receiver, ""
	return p, nil
}

// sizes returns the accepted requests, the status reads and the sweeper's statements a second.
func (p *pipeline) sizes(ctx context.Context) (rates [3]float64, err error) {
	if err := p.tidy(ctx); err != nil {
		return rates, err
	}
	result, err := p.run(ctx, bareDuration, 0)
	if err != nil {
		return rates, err
	}
	rates[0] = result.perSecond()
	read, _, err := p.measured(ctx, loadPlan{Address: p.plan.Address, Paths: p.someRequests(result.Accepted),
		Header: "Authorization: Bearer " + p.plan.Token})
	if err != nil {
		return rates, err
	}
	rates[1] = read.perSecond()
	rates[2], err = p.sweeps(ctx)
	return rates, err
}

// someRequests returns the paths of some of the newest requests.
func (p *pipeline) someRequests(newest int64) []string {
	paths := make([]string, pathsOfRun)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s/%d", intakePath, p.nextID-rand.Int64N(newest))
	}
	return paths
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
