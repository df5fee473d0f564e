package main

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

const (
	intakePath   = "/api/material-requests"
	loadDuration = 10 * time.Second
	warmUp       = 3 * time.Second
	pacedRate    = 400 // requests/s
)

// pipelineBench measures the whole service in turns with builds on River, and then intake alone and the embedded
// default.
func pipelineBench(ctx context.Context) error {
	fmt.Println(machine())
	if err := againstRiver(ctx); err != nil {
		return err
	}
	return onStack(ctx, func(ctx context.Context, s *stack) error {
		p, err := s.started(ctx)
		if err != nil {
			return err
		}
		if err := p.intake(ctx); err != nil {
			return err
		}
		return s.embedded(ctx)
	})
}

// started returns a pipeline without a worker on a fresh queue.
func (s *stack) started(ctx context.Context) (*pipeline, error) {
	if err := s.startNATS(); err != nil {
		return nil, err
	}
	return s.startPipeline(ctx)
}

// pipeline is one api and one worker with a supplier whose receiver the load generator serves.
type pipeline struct {
	*stack
	api, worker *exec.Cmd
	plan        loadPlan
	receiver    string // where the load generator serves it, host:port
	nextID      int64
}

func (s *stack) startPipeline(ctx context.Context) (*pipeline, error) {
	p := &pipeline{stack: s, nextID: 1}
	address, api, err := s.startOwn()
	if err != nil {
		return nil, err
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	receiver := fmt.Sprintf("127.0.0.1:%d", port)
	p.receiver = receiver
	token, err := s.supplier(ctx, address, "http://"+receiver+"/hook")
	if err != nil {
		return nil, err
	}
	p.api = api
	p.plan = loadPlan{Address: address, Path: intakePath, Token: token, Connections: connections, Receiver: receiver}
	return p, nil
}

// share makes so many suppliers share the load.
func (p *pipeline) share(ctx context.Context, suppliers int) error {
	for len(p.plan.Others) < suppliers-1 {
		token, err := p.supplier(ctx, p.plan.Address, "http://"+p.receiver+"/hook")
		if err != nil {
			return err
		}
		p.plan.Others = append(p.plan.Others, token)
	}
	return nil
}

// startOwn runs an api which the workers that are started later call.
func (s *stack) startOwn() (address string, api *exec.Cmd, err error) {
	if address, api, err = s.startAPI(); err == nil {
		s.env = append(s.env, "ADMIN_ADDR=127.0.0.1:0", "ESTIMATES_WEBHOOK_BASE_URL=http://"+address)
	}
	return address, api, err
}

// startWorker starts a worker and waits until it has delivered everything that was accepted before.
func (p *pipeline) startWorker(ctx context.Context) (err error) {
	if p.worker, err = p.start("worker"); err != nil {
		return err
	}
	return p.warm(ctx)
}

func (p *pipeline) warm(ctx context.Context) error {
	_, err := p.run(ctx, warmUp, 0)
	return err
}

// run posts for the duration and waits until everything accepted has reached the supplier's receiver.
func (p *pipeline) run(ctx context.Context, duration time.Duration, perSecond int) (loadResult, error) {
	plan := p.plan
	plan.Duration, plan.PerSecond, plan.FirstID = duration, perSecond, p.nextID
	result, err := p.load(ctx, plan)
	if err != nil {
		return result, err
	}
	p.nextID += result.Accepted + result.Other
	return result, result.flawless()
}

// intake posts as fast as answers come while no worker runs.
func (p *pipeline) intake(ctx context.Context) error {
	plan := p.plan
	plan.Duration, plan.Receiver = loadDuration, ""
	result, err := p.load(ctx, plan)
	if err != nil {
		return err
	}
	fmt.Printf("intake alone, %d connections: %.0f accepted/s, p50 %s p99 %s\n", connections, result.perSecond(),
		milliseconds(result.P50), milliseconds(result.P99))
	return p.stop(p.api)
}

// embedded measures the default without PostgreSQL and NATS.
func (s *stack) embedded(ctx context.Context) error {
	s.becomeEmbedded()
	p, err := s.startPipeline(ctx)
	if err != nil {
		return err
	}
	if err := p.warm(ctx); err != nil {
		return err
	}
	result, err := p.run(ctx, loadDuration, 0)
	if err != nil {
		return err
	}
	fmt.Printf("embedded, SQLite with synchronous FULL: %.0f accepted/s, p50 %s p99 %s; %.0f delivered/s\n",
		result.perSecond(), milliseconds(result.P50), milliseconds(result.P99), float64(result.Delivered)/result.DrainSeconds)
	return nil
}

// becomeEmbedded makes what is started later keep everything in DATA_DIR.
func (s *stack) becomeEmbedded() {
	var env []string
	for _, entry := range s.env {
		if !strings.HasPrefix(entry, "DATABASE_URL=") && !strings.HasPrefix(entry, "NATS_URL=") &&
			!strings.HasPrefix(entry, "ESTIMATES_WEBHOOK_BASE_URL=") {
			env = append(env, entry)
		}
	}
	s.env = env
}
