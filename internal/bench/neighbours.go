package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	neighbourRate   = 100 // requests/s of each supplier
	neighbourRounds = 5
	webhookTimeout  = 5 * time.Second         // of the worker in these runs
	almostTimeout   = 4800 * time.Millisecond // what the slow receiver takes
	flapping        = 3 * time.Second         // how long the flapping receiver is well, and then ill
	deadBacklog     = 50_000                  // deliveries that wait for the dead receiver
)

// neighbours measures the latency of a healthy supplier's deliveries while other receivers are not healthy.
func neighbours(ctx context.Context, s *stack) error {
	if err := s.startNATS(); err != nil {
		return err
	}
	s.env = append(s.env, "WEBHOOK_TIMEOUT="+webhookTimeout.String())
	p, err := s.startPipeline(ctx)
	if err != nil {
		return err
	}
	if err := p.startWorker(ctx); err != nil {
		return err
	}
	if err := p.tidy(ctx); err != nil {
		return err
	}
	alone := func() (loadResult, error) { return p.run(ctx, loadDuration, neighbourRate) }
	among := func(handle http.HandlerFunc) func() (loadResult, error) {
		return func() (loadResult, error) { return p.among(ctx, handle) }
	}
	start := time.Now()
	fmt.Printf("publish to delivery of a healthy supplier at %d requests/s, with another supplier\n", neighbourRate)
	err = inRounds(ctx, []neighbour{
		{"alone", alone},
		{"that is healthy too", among(func(http.ResponseWriter, *http.Request) {})},
		{"whose receiver takes 4.8 of 5 s", among(func(_ http.ResponseWriter, r *http.Request) {
			wait(r.Context(), almostTimeout)
		})},
		{"whose receiver never answers", among(func(_ http.ResponseWriter, r *http.Request) {
			wait(r.Context(), time.Minute)
		})},
		{"whose receiver is ill every other 3 s", among(func(w http.ResponseWriter, _ *http.Request) {
			if time.Since(start)/flapping%2 == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		})},
	})
	if err != nil {
		return err
	}
	if err := p.deadBacklog(ctx, deadBacklog); err != nil {
		return err
	}
	return inRounds(ctx, []neighbour{{fmt.Sprintf("with %d deliveries to a dead receiver", deadBacklog), alone}})
}

// neighbour is the other supplier of a run, and what measures the healthy one next to it.
type neighbour struct {
	name string
	run  func() (loadResult, error)
}

// inRounds runs all of them in turn, five times, so that a slow minute of the machine is in no one's figures alone. It
// prints the middle p50 and p99 of each.
func inRounds(ctx context.Context, neighbours []neighbour) error {
	results := make([][2][]float64, len(neighbours))
	for range neighbourRounds {
		for i, n := range neighbours {
			result, err := n.run()
			if err != nil {
				return fmt.Errorf("%s: %w", n.name, err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			results[i][0] = append(results[i][0], inMilliseconds(result.Delivery50))
			results[i][1] = append(results[i][1], inMilliseconds(result.Delivery99))
		}
	}
	for i, n := range neighbours {
		p99 := results[i][1]
		fmt.Printf("  %-44s p50 %.1f ms  p99 %.1f ms (%.1f to %.1f)\n", n.name, quantile(results[i][0], 0.5),
			quantile(p99, 0.5), slices.Min(p99), slices.Max(p99))
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// among runs the healthy supplier while another one's requests come as fast as its own.
func (p *pipeline) among(ctx context.Context, handle http.HandlerFunc) (loadResult, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return loadResult{}, err
	}
	server := &http.Server{Handler: handle, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	defer server.Close()
	plan, err := p.other(ctx, "http://"+l.Addr().String())
	if err != nil {
		return loadResult{}, err
	}
	plan.PerSecond, plan.Duration = neighbourRate, loadDuration+warmUp
	ended := make(chan error, 1)
	go func() {
		_, err := p.load(ctx, plan)
		ended <- err
	}()
	wait(ctx, warmUp)
	result, err := p.run(ctx, loadDuration, neighbourRate)
	if err != nil {
		return result, err
	}
	return result, <-ended
}

// other returns the load of a supplier of its own with the receiver.
func (p *pipeline) other(ctx context.Context, receiver string) (loadPlan, error) {
	token, err := p.supplier(ctx, p.plan.Address, receiver)
	plan := p.plan
	plan.Token, plan.Receiver, plan.FirstID, plan.Connections = token, "", 1, 16
	return plan, err
}

// deadBacklog lets deliveries pile up for a receiver at which nothing listens.
func (p *pipeline) deadBacklog(ctx context.Context, n int64) error {
	port, err := freePort()
	if err != nil {
		return err
	}
	plan, err := p.other(ctx, fmt.Sprintf("http://127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	for accepted := int64(0); accepted < n; {
		plan.Duration = time.Second
		result, err := p.load(ctx, plan)
		if err != nil {
			return err
		}
		accepted += result.Accepted
		plan.FirstID += result.Accepted + result.Other
	}
	if _, err = p.run(ctx, time.Second, neighbourRate); err != nil { // is estimated behind all of them
		return err
	}
	return p.tidy(ctx)
}

// tidy lets PostgreSQL do at once what it would do in the next minutes: the backlog is measured, not its making.
func (s *stack) tidy(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range []string{"VACUUM (ANALYZE)", "CHECKPOINT"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}
