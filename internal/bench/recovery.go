package main

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/supplyhub/supplyhub/pkg/client"
)

const (
	resumedBacklog = 50_000  // deliveries that wait for a receiver until it is resumed
	recovered      = 100_000 // deliveries that one call sends again
	lookEvery      = 500 * time.Millisecond
)

// recovery measures what a healthy supplier notices of another one's receiver that is resumed with much behind it, and
// of its recovery after an outage.
func recovery(ctx context.Context, s *stack) error {
	p, err := s.started(ctx)
	if err != nil {
		return err
	}
	if err := p.startWorker(ctx); err != nil {
		return err
	}
	big, stop, err := p.bigSupplier(ctx)
	if err != nil {
		return err
	}
	defer stop()
	fmt.Println(machine())
	fmt.Printf("publish to delivery of a healthy supplier at %d requests/s, beside another supplier\n", neighbourRate)
	if err := big.resume(ctx, p); err != nil {
		return fmt.Errorf("resume: %w", err)
	}
	if err := big.fill(ctx, p, recovered-resumedBacklog); err != nil {
		return err
	}
	if err := big.wait(ctx, client.Pending, 0); err != nil {
		return err
	}
	if err := big.recover(ctx, p); err != nil {
		return fmt.Errorf("recover: %w", err)
	}
	return nil
}

// bigSupplier has many deliveries and a receiver that answers at once.
type bigSupplier struct {
	hub   *client.Client
	stack *stack
	hook  string // its receiver's address
	plan  loadPlan
	took  atomic.Int64 // calls of its receiver
	alone loadResult   // the healthy supplier's, for comparison
}

func (p *pipeline) bigSupplier(ctx context.Context) (*bigSupplier, func(), error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, nil, err
	}
	big := &bigSupplier{stack: p.stack, hook: "http://" + l.Addr().String()}
	server := &http.Server{Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) { big.took.Add(1) }),
		ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	key, token, err := p.supplier(ctx, p.plan.Address, big.hook)
	if err != nil {
		return nil, nil, err
	}
	big.plan = p.plan
	big.plan.Token, big.plan.Receiver, big.plan.FirstID, big.plan.Connections, big.plan.Duration = token, "", 1, 16,
		time.Second
	big.hub, err = client.New(client.Config{BaseURL: "http://" + p.plan.Address, APIKey: key,
		HTTP: &http.Client{Timeout: deliveryWait}, Attempts: 1})
	return big, func() { _ = server.Close() }, err
}

// fill posts n requests or a few more and waits until their deliveries are made.
func (b *bigSupplier) fill(ctx context.Context, p *pipeline, n int64) error {
	before, err := b.total(ctx, "")
	if err != nil {
		return err
	}
	accepted := int64(0)
	for accepted < n {
		result, err := p.load(ctx, b.plan)
		if err != nil {
			return err
		}
		accepted += result.Accepted
		b.plan.FirstID += result.Accepted + result.Other
	}
	return b.wait(ctx, "", before+accepted)
}

func (b *bigSupplier) total(ctx context.Context, status client.DeliveryStatus) (n int64, err error) {
	conn, err := pgx.Connect(ctx, b.stack.database())
	if err != nil {
		return 0, err
	}
	defer conn.Close(ctx)
	err = conn.QueryRow(ctx, `SELECT count(*) FROM webhook_deliveries
		WHERE destination = (SELECT id FROM suppliers WHERE webhook_url = $1) AND ($2 = '' OR status = $2)`,
		b.hook, string(status)).Scan(&n)
	return n, err
}

// wait looks until there are n deliveries of the status.
func (b *bigSupplier) wait(ctx context.Context, status client.DeliveryStatus, n int64) error {
	for end := time.Now().Add(deliveryWait); ; wait(ctx, lookEvery) {
		total, err := b.total(ctx, status)
		if err != nil || total == n || ctx.Err() != nil {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("%d deliveries are %q, want %d", total, status, n)
		}
	}
}

// resume lets deliveries pile up while the receiver is paused and measures the healthy supplier while they go out.
func (b *bigSupplier) resume(ctx context.Context, p *pipeline) error {
	if _, err := b.hub.PauseReceiver(ctx); err != nil {
		return err
	}
	if err := b.fill(ctx, p, resumedBacklog); err != nil {
		return err
	}
	if err := p.tidy(ctx); err != nil {
		return err
	}
	waiting, err := b.total(ctx, client.Pending)
	if err != nil {
		return err
	}
	if err := b.quiet(ctx, p); err != nil {
		return err
	}
	if _, err := b.hub.ResumeReceiver(ctx); err != nil {
		return err
	}
	start := time.Now()
	result, err := p.run(ctx, loadDuration, neighbourRate)
	if err != nil {
		return err
	}
	b.show(fmt.Sprintf("that is resumed with %d deliveries waiting", waiting), result)
	fmt.Printf("    %d of them went out beside it in %s\n", b.took.Load(), time.Since(start).Round(time.Second))
	return b.wait(ctx, client.Pending, 0)
}

// recover sends everything once more by one call, measures the healthy supplier beside it, and looks at the states.
func (b *bigSupplier) recover(ctx context.Context, p *pipeline) error {
	if err := p.tidy(ctx); err != nil {
		return err
	}
	if err := b.quiet(ctx, p); err != nil {
		return err
	}
	before := b.took.Load()
	type outcome struct {
		n    int64
		took time.Duration
		err  error
	}
	ended, start := make(chan outcome, 1), time.Now()
	go func() {
		n, err := b.hub.Recover(ctx, client.Recovery{Status: client.Delivered, Since: time.Unix(0, 0)})
		ended <- outcome{n, time.Since(start), err}
	}()
	steps := make(chan []int64, 1)
	looking, stop := context.WithCancel(ctx)
	defer stop()
	go func() { steps <- b.steps(looking) }()
	result, err := p.run(ctx, loadDuration, neighbourRate)
	if err != nil {
		return err
	}
	o := <-ended
	if o.err != nil {
		return o.err
	}
	stop()
	b.show(fmt.Sprintf("that recovers %d deliveries", o.n), result)
	fmt.Printf("    the call took %s; pending, each %s: %v\n", o.took.Round(10*time.Millisecond), lookEvery, <-steps)
	if err := b.wait(ctx, client.Pending, 0); err != nil {
		return err
	}
	fmt.Printf("    %d were sent again in %s\n", b.took.Load()-before, time.Since(start).Round(time.Second))
	return nil
}

// quiet measures the healthy supplier while nothing of the other one is sent: right before, as the machine has slow
// hours.
func (b *bigSupplier) quiet(ctx context.Context, p *pipeline) (err error) {
	b.alone, err = p.median(ctx, func() (loadResult, error) { return p.run(ctx, loadDuration, neighbourRate) })
	if err == nil {
		b.show("that waits", b.alone)
	}
	return err
}

// steps returns how many deliveries were pending at each look until ctx ended.
func (b *bigSupplier) steps(ctx context.Context) (seen []int64) {
	for ctx.Err() == nil {
		if n, err := b.total(ctx, client.Pending); err == nil {
			seen = append(seen, n)
		}
		wait(ctx, lookEvery)
	}
	return seen
}

func (b *bigSupplier) show(name string, r loadResult) {
	fmt.Printf("  %-44s p50 %s  p99 %s  %.2f times\n", name, milliseconds(r.Delivery50), milliseconds(r.Delivery99),
		float64(r.Delivery99)/float64(b.alone.Delivery99))
}
