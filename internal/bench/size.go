package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/supplyhub/supplyhub/internal/database"
)

const (
	storedRequests = 10_000_000 // with as many events, deliveries and attempts, in as many days as there are partitions
	sizeRequests   = "SIZE_REQUESTS"
	sizeDays       = 10
	droppedDays    = 6
	dropTries      = 8      // while requests come in
	newestRequests = 10_000 // that are read
	sizeRounds     = 4
)

// sizeFigures are measured over both, a second.
var sizeFigures = [...]struct {
	name    string
	measure func(*pipeline, context.Context) (float64, error)
}{
	{"accepted/s", func(p *pipeline, ctx context.Context) (float64, error) {
		result, err := p.run(ctx, loadDuration, 0)
		return result.perSecond(), err
	}},
	{"status reads/s", func(p *pipeline, ctx context.Context) (float64, error) {
		return p.readsNewest(ctx, newestRequests, loadDuration)
	}},
}

// size measures a large database: the lists of a supplier that has a tenth of it, at any depth; the console's pages;
// the cost of dropping a day to its users; and intake and reads compared with a young database, at the same moments.
func size(ctx context.Context, s *stack) error {
	stored, err := strconv.ParseInt(cmp.Or(os.Getenv(sizeRequests), strconv.Itoa(storedRequests)), 10, 64)
	if err != nil {
		return fmt.Errorf("%s: %w", sizeRequests, err)
	}
	fmt.Println(machine())
	full, err := s.unworked(ctx)
	if err != nil {
		return err
	}
	begin := time.Now()
	key, err := full.fill(ctx, stored)
	if err != nil {
		return fmt.Errorf("fill: %w", err)
	}
	fmt.Printf("%d requests, events, deliveries and attempts of %d days stored in %.0f s\n", stored, sizeDays,
		time.Since(begin).Seconds())
	if err := full.tidy(ctx); err != nil {
		return err
	}
	wait(ctx, time.Since(begin)/4) // a disk that was written to for minutes answers late for some more
	if err := errors.Join(readLists(ctx, full.plan.Address, key), readConsole(ctx, full.admin, stored)); err != nil {
		return err
	}
	if err := full.dropDays(ctx, stored/sizeDays); err != nil {
		return err
	}
	return onStack(ctx, func(ctx context.Context, s *stack) error {
		young, err := s.unworked(ctx)
		if err != nil {
			return err
		}
		return young.compareWith(ctx, full)
	})
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

// compareWith prints the figures of both pipelines, each measured of both at the same moments. Their apis are started
// in each round, in one order and then in the other one: those that start last look faster on some days.
func (p *pipeline) compareWith(ctx context.Context, full *pipeline) error {
	var rates [2][len(sizeFigures)]float64
	pipelines := [2]*pipeline{p, full}
	for round := range sizeRounds {
		for i := range pipelines {
			one := pipelines[(i+round)%2]
			if err := errors.Join(one.restartAPI(), one.warm(ctx), one.tidy(ctx)); err != nil {
				return err
			}
		}
		for n, figure := range sizeFigures {
			both, ctx := errgroup.WithContext(ctx)
			for i, one := range pipelines {
				both.Go(func() error {
					rate, err := figure.measure(one, ctx)
					rates[i][n] += rate / sizeRounds
					return err
				})
			}
			if err := both.Wait(); err != nil {
				return fmt.Errorf("%s: %w", figure.name, err)
			}
		}
	}
	for i, figure := range sizeFigures {
		fmt.Printf("  %-16s %8.0f of a young database   %8.0f of the full one   %.2f times\n", figure.name, rates[0][i],
			rates[1][i], rates[1][i]/rates[0][i])
	}
	return nil
}

// readsNewest returns the status reads of some of the newest requests a second.
func (p *pipeline) readsNewest(ctx context.Context, newest int64, duration time.Duration) (float64, error) {
	newest = min(newest, p.nextID-1)
	paths := make([]string, pathsOfRun)
	turns := int64(len(p.plan.Others) + 1)
	for i := range paths {
		id := max(p.nextID-rand.Int64N(newest), turns)
		paths[i] = fmt.Sprintf("%s/%d", intakePath, id-id%turns) // the first supplier's
	}
	result, err := p.load(ctx, loadPlan{Address: p.plan.Address, Paths: paths, Connections: connections,
		Duration: duration, Header: "Authorization: Bearer " + p.plan.Token})
	return result.perSecond(), errors.Join(err, result.flawless())
}

// dropDays drops the oldest of the filled partitions while requests come in and are delivered, each between two runs
// without a drop and as the first that the processes' connections see, as where one day ends a day.
func (p *pipeline) dropDays(ctx context.Context, requests int64) error {
	p.plan.Receiver = p.receiver
	for range droppedDays {
		if err := p.restart(ctx); err != nil {
			return err
		}
		before, err := p.run(ctx, loadDuration, pacedRate)
		if err != nil {
			return err
		}
		var took time.Duration
		during := make(chan error, 1)
		go func() {
			wait(ctx, loadDuration/2)
			var err error
			took, err = p.dropOldest(ctx)
			during <- err
		}()
		with, err := p.run(ctx, loadDuration, pacedRate)
		if err = errors.Join(err, <-during); err != nil {
			return err
		}
		fmt.Printf("a day of %d requests dropped in %s at %d/s; p99 before and meanwhile: POST %s, %s, delivery %s, %s\n",
			requests, milliseconds(took), pacedRate, milliseconds(before.P99), milliseconds(with.P99),
			milliseconds(before.Delivery99), milliseconds(with.Delivery99))
	}
	p.plan.Receiver = ""
	return p.stop(p.worker)
}

// restart has a new api and a new worker, whose connections know no statement yet.
func (p *pipeline) restart(ctx context.Context) error {
	if p.worker != nil {
		if err := p.stop(p.worker); err != nil {
			return err
		}
	}
	if err := errors.Join(p.tidy(ctx), p.restartAPI()); err != nil {
		return err
	}
	return p.startWorker(ctx)
}

func (p *pipeline) restartAPI() (err error) {
	if err := p.stop(p.api); err != nil {
		return err
	}
	p.plan.Address, p.api, err = p.startOwn()
	return err
}

// dropOldest drops the oldest partition, as retention does when its requests are deleted, and returns how long it took;
// it tries again where it would make others wait.
func (s *stack) dropOldest(ctx context.Context) (time.Duration, error) {
	db, err := database.Open(ctx, database.Config{URL: s.database(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return 0, err
	}
	defer db.Close()
	why := ""
	for range dropTries {
		begin := time.Now()
		err := db.InTx(ctx, "drop the oldest day", func(ctx context.Context) error {
			return db.From(ctx).Raw(`SELECT drop_webhook_partition((SELECT min(first_uid) FROM webhook_partitions
				WHERE first_uid > 0))`).Scan(&why).Error
		})
		if err != nil || why == "" {
			return time.Since(begin), err
		}
		wait(ctx, time.Second/2)
	}
	return 0, fmt.Errorf("the oldest partition could not be dropped while requests came in: %s", why)
}
