package main

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	neighbourRate  = 100                     // requests/s of each supplier
	webhookTimeout = 5 * time.Second         // of the worker in these runs
	almostTimeout  = 4800 * time.Millisecond // what the slow receiver takes
	flapping       = 3 * time.Second         // how long the flapping receiver is well, and then ill
	deadBacklog    = 50_000                  // deliveries that wait for the dead receiver
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
	fmt.Printf("publish to delivery of a healthy supplier at %d requests/s, with another supplier\n", neighbourRate)
	alone, err := p.median(ctx, func() (loadResult, error) { return p.run(ctx, loadDuration, neighbourRate) })
	if err != nil {
		return err
	}
	show := func(name string, r loadResult) {
		fmt.Printf("  %-44s p50 %s  p99 %s  %.2f times\n", name, milliseconds(r.Delivery50), milliseconds(r.Delivery99),
			float64(r.Delivery99)/float64(alone.Delivery99))
	}
	show("alone", alone)
	start := time.Now()
	for _, n := range []struct {
		name   string
		handle http.HandlerFunc
	}{
		{"that is healthy too", func(http.ResponseWriter, *http.Request) {}},
		{"whose receiver takes 4.8 of 5 s", func(_ http.ResponseWriter, r *http.Request) {
			wait(r.Context(), almostTimeout)
		}},
		{"whose receiver never answers", func(_ http.ResponseWriter, r *http.Request) { wait(r.Context(), time.Minute) }},
		{"whose receiver is ill every other 3 s", func(w http.ResponseWriter, _ *http.Request) {
			if time.Since(start)/flapping%2 == 1 {
				w.WriteHeader(http.StatusServiceUnavailable)
			}
		}},
	} {
		result, err := p.median(ctx, func() (loadResult, error) { return p.among(ctx, n.handle) })
		if err != nil {
			return fmt.Errorf("%s: %w", n.name, err)
		}
		show(n.name, result)
	}
	if err := p.deadBacklog(ctx, deadBacklog); err != nil {
		return err
	}
	result, err := p.median(ctx, func() (loadResult, error) { return p.run(ctx, loadDuration, neighbourRate) })
	if err != nil {
		return err
	}
	show(fmt.Sprintf("with %d deliveries to a dead receiver", deadBacklog), result)
	return nil
}

// median returns the run of three with the middle p99: now and then the disk lets all commits of a moment wait for 50
// ms.
func (p *pipeline) median(ctx context.Context, run func() (loadResult, error)) (loadResult, error) {
	var results [3]loadResult
	for i := range results {
		var err error
		if results[i], err = run(); err != nil || ctx.Err() != nil {
			return results[i], err
		}
	}
	slices.SortFunc(results[:], func(a, b loadResult) int { return cmp.Compare(a.Delivery99, b.Delivery99) })
	return results[1], nil
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
