package main

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

const (
	citusVariable = "SUPPLYHUB_TEST_CITUS_WORKERS"
	citusShards   = 32
	citusRequests = 2000
	citusRate     = 50 // requests/s
)

// citusBench measures one supplier's pipeline on the coordinator's server alone and then spread over all three, which
// share this machine: what it shows is what the way to another server costs, not what more machines bring.
func citusBench(ctx context.Context) error {
	for _, spread := range []bool{false, true} {
		err := onStack(ctx, func(ctx context.Context, s *stack) error {
			fmt.Println(map[bool]string{false: "one server", true: "a coordinator and two workers of Citus"}[spread])
			if spread {
				if err := s.spread(ctx); err != nil {
					return err
				}
			}
			return s.citusLoad(ctx)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// spread migrates the stack's database and spreads it. Its servers are thrown away with what the workers have of it.
func (s *stack) spread(ctx context.Context) error {
	workers, err := required(citusVariable)
	if err != nil {
		return err
	}
	if _, err := s.command(ctx, "migrate"); err != nil {
		return err
	}
	_, err = cluster.Spread(ctx, s.database(), workers, "deployments/citus.sql", citusShards)
	return err
}

func (s *stack) citusLoad(ctx context.Context) error {
	p, err := s.started(ctx)
	if err == nil {
		err = p.startWorker(ctx)
	}
	if err != nil {
		return err
	}
	for _, rate := range []int{0, citusRate} {
		plan := p.plan
		plan.Duration, plan.PerSecond, plan.FirstID, plan.Requests = loadDuration, rate, p.nextID, citusRequests
		result, err := p.load(ctx, plan)
		if err != nil {
			return err
		}
		p.nextID += result.Accepted + result.Other + connections
		if err := result.flawless(); err != nil {
			return err
		}
		if rate == 0 {
			fmt.Printf("  as fast as answers come: accepted/s %5.0f  p50 %s p99 %s  delivered/s %5.0f\n", result.perSecond(),
				milliseconds(result.P50), milliseconds(result.P99), float64(result.Delivered)/result.DrainSeconds)
			continue
		}
		fmt.Printf("  %d requests/s: answered p50 %s p99 %s  publish to delivery p50 %s p99 %s\n", rate,
			milliseconds(result.P50), milliseconds(result.P99), milliseconds(result.Delivery50),
			milliseconds(result.Delivery99))
	}
	return nil
}
