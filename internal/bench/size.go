package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"
)

const (
	storedRequests = 10_000_000 // with as many events, deliveries and attempts, in as many days as there are partitions
	sizeRequests   = "SIZE_REQUESTS"
	sizeDays       = 10
	droppedDays    = 6
	dropTries      = 8      // while requests come in
	newestRequests = 10_000 // that are read
)

// sizeFigures are measured over both, a second.
var sizeFigures = [...]struct {
	name    string
	measure func(*pipeline, context.Context) (float64, error)
}{
	{"accepted/s", (*pipeline).accepts},
	{"status reads/s", func(p *pipeline, ctx context.Context) (float64, error) {
		return p.readsNewest(ctx, newestRequests, loadDuration)
	}},
	{"sweeps/s", (*pipeline).sweeps},
}

// size measures intake, reads and the sweeper's statement over a large database and over a young one, at the same
// moments as the machine's speed drifts, and what dropping a day of the large one costs who uses it.
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

// storedCount returns how many requests a large database has.
func storedCount() (int64, error) {
	stored, err := strconv.ParseInt(cmp.Or(os.Getenv(sizeRequests), strconv.Itoa(storedRequests)), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", sizeRequests, err)
	}
	return stored, nil
}

// besideFull fills the other database and measures both.
func (p *pipeline) besideFull(ctx context.Context, full *pipeline) error {
	stored, err := storedCount()
	if err != nil {
		return err
	}
	begin := time.Now()
	if err := errors.Join(full.fillUp(ctx, stored), p.fillFew(ctx)); err != nil {
		return err
	}
	fmt.Printf("%d requests, events, deliveries and attempts of %d days stored in %.0f s\n", stored, sizeDays,
		time.Since(begin).Seconds())
	begin = time.Now()
	if err := full.settle(ctx); err != nil {
		return err
	}
	fmt.Printf("vacuumed and indexed anew, as a service does that runs for days, in %.0f s\n", time.Since(begin).Seconds())
	wait(ctx, time.Since(begin)/2) // a disk that was written to for minutes answers late for some more
	if err := full.dropDays(ctx, stored/sizeDays); err != nil {
		return err
	}
	rates, err := p.sideBySide(ctx, full)
	if err != nil {
		return err
	}
	for i, figure := range sizeFigures {
		fmt.Printf("  %-16s %8.0f of a young database   %8.0f of the full one   %.2f times\n", figure.name, rates[0][i],
			rates[1][i], rates[1][i]/rates[0][i])
	}
	return nil
}

// sideBySide returns the pipelines' figures, each measured of both at the same moments.
func (p *pipeline) sideBySide(ctx context.Context, full *pipeline) (rates [2][len(sizeFigures)]float64, err error) {
	const rounds = 4
	pipelines := []*pipeline{p, full}
	for range rounds {
		for _, one := range pipelines {
			if err := errors.Join(one.warm(ctx), one.tidy(ctx)); err != nil {
				return rates, err
			}
		}
		for n, figure := range sizeFigures {
			both, ctx := errgroup.WithContext(ctx)
			for i, one := range pipelines {
				both.Go(func() error {
					rate, err := figure.measure(one, ctx)
					rates[i][n] += rate / rounds
					return err
				})
			}
			if err := both.Wait(); err != nil {
				return rates, fmt.Errorf("%s: %w", figure.name, err)
			}
		}
	}
	return rates, nil
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

// accepts returns the accepted requests a second.
func (p *pipeline) accepts(ctx context.Context) (float64, error) {
	result, err := p.run(ctx, loadDuration, 0)
	return result.perSecond(), err
}

// readsNewest returns the status reads of some of the newest requests a second.
func (p *pipeline) readsNewest(ctx context.Context, newest int64, duration time.Duration) (float64, error) {
	result, err := p.load(ctx, loadPlan{Address: p.plan.Address, Paths: p.someRequests(newest), Connections: connections,
		Duration: duration, Header: "Authorization: Bearer " + p.plan.Token})
	return result.perSecond(), errors.Join(err, result.flawless())
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
	cfg, err := pgx.ParseConfig(s.database())
	if err != nil {
		return 0, err
	}
	cfg.RuntimeParams["plan_cache_mode"] = "force_generic_plan" // as the service's connections have it
	conn, err := pgx.ConnectConfig(ctx, cfg)
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
