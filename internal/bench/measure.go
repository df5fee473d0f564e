package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

const (
	intakePath   = "/api/material-requests"
	loadDuration = 10 * time.Second
	warmUp       = 3 * time.Second
	pacedRate    = 400 // requests/s

	fewConnections = "&pool_max_conns=8" // of a process, as compose.yaml has it
)

// measure runs all of it, one thing at a time, and prints the figures.
func measure(ctx context.Context, s *stack) error {
	if err := s.startNATS(); err != nil {
		return err
	}
	limits, err := s.bareLimits(ctx)
	if err != nil {
		return err
	}
	fmt.Println(machine())
	limits.print()
	var drawn plot
	p, err := s.startPipeline(ctx)
	if err != nil {
		return err
	}
	if err := p.auth(ctx, &drawn); err != nil {
		return fmt.Errorf("sessions: %w", err)
	}
	if err := p.intake(ctx, limits, &drawn); err != nil {
		return err
	}
	if err := p.work(ctx, limits, &drawn); err != nil {
		return err
	}
	if err := s.stop(p.worker); err != nil {
		return err
	}
	if err := p.backlog(ctx, &drawn); err != nil {
		return fmt.Errorf("backlog: %w", err)
	}
	if err := s.stop(p.api); err != nil {
		return err
	}
	if err := besideRiver(ctx, &drawn); err != nil {
		return err
	}
	if err := s.embedded(ctx, &drawn); err != nil {
		return fmt.Errorf("embedded: %w", err)
	}
	return drawn.write(plotFile)
}

// pipelineOnly is the part that a change of the road is tried by.
func pipelineOnly(ctx context.Context, s *stack) error {
	p, err := s.started(ctx)
	if err != nil {
		return err
	}
	return p.work(ctx, limits{}, &plot{})
}

// memoryBench is pipelineOnly with what compose.yaml gives each process of a small machine.
func memoryBench(ctx context.Context, s *stack) error {
	s.env = append(s.env, "DATABASE_URL="+s.database()+fewConnections, "GOMEMLIMIT=192MiB")
	return pipelineOnly(ctx, s)
}

// work measures and shows the pipeline with a worker.
func (p *pipeline) work(ctx context.Context, l limits, drawn *plot) error {
	if err := p.startWorker(ctx); err != nil {
		return err
	}
	ours, err := p.figures(ctx)
	if err != nil {
		return err
	}
	ours.show(l, drawn)
	return nil
}

// sessionsOnly is the part that a change of the sessions is tried by.
func sessionsOnly(ctx context.Context, s *stack) error {
	p, err := s.started(ctx)
	if err != nil {
		return err
	}
	return p.auth(ctx, &plot{})
}

// started returns a pipeline without a worker on a fresh queue.
func (s *stack) started(ctx context.Context) (*pipeline, error) {
	if err := s.startNATS(); err != nil {
		return nil, err
	}
	return s.startPipeline(ctx)
}

// limits are rates per second.
type limits struct{ http, rows, publish float64 }

// composed returns the rate of the three parts one after the other on one machine: H.
func (l limits) composed() float64 { return 1 / (1/l.http + 1/l.rows + 1/l.publish) }

func (l limits) print() {
	fmt.Printf("bare limits of this machine, %d connections, requests/s\n", connections)
	fmt.Printf("  gin + JWT + validation         %8.0f\n", l.http)
	fmt.Printf("  PostgreSQL group commit        %8.0f\n", l.rows)
	fmt.Printf("  JetStream publish              %8.0f\n", l.publish)
	fmt.Printf("  composed, H                    %8.0f\n", l.composed())
}

func (s *stack) bareLimits(ctx context.Context) (l limits, err error) {
	if l.http, err = s.bareHTTPRate(ctx); err != nil {
		return l, fmt.Errorf("bare HTTP: %w", err)
	}
	if l.rows, err = s.rate("bare-rows"); err != nil {
		return l, fmt.Errorf("bare rows: %w", err)
	}
	if l.publish, err = s.rate("bare-publish"); err != nil {
		return l, fmt.Errorf("bare publish: %w", err)
	}
	return l, nil
}

func (s *stack) bareHTTPRate(ctx context.Context) (float64, error) {
	cmd, out, err := s.start("bench", "bare-http")
	if err != nil {
		return 0, err
	}
	var address, token string
	if _, err := fmt.Fscan(out, &address, &token); err != nil {
		return 0, err
	}
	plan := loadPlan{Address: address, Path: intakePath, Token: token, Connections: connections, Duration: warmUp}
	if _, err := s.load(ctx, plan); err != nil {
		return 0, err
	}
	plan.Duration = bareDuration
	result, err := s.load(ctx, plan)
	if err != nil {
		return 0, err
	}
	return result.perSecond(), errors.Join(result.flawless(), s.stop(cmd))
}

// perSecond returns the rate of accepted requests.
func (r loadResult) perSecond() float64 { return float64(r.Accepted) / r.Seconds }

func (r loadResult) flawless() error {
	if r.Other > 0 {
		return fmt.Errorf("%d of %d requests were not accepted", r.Other, r.Other+r.Accepted)
	}
	return nil
}
