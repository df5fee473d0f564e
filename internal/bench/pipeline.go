package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"
)

// pipeline is one api and one worker with a supplier whose receiver the load generator serves.
type pipeline struct {
	*stack
	api, worker *exec.Cmd
	key         string // of the supplier
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
	key, token, err := s.supplier(ctx, address, "http://"+receiver+"/hook")
	if err != nil {
		return nil, err
	}
	p.api, p.key = api, key
	p.plan = loadPlan{Address: address, Path: intakePath, Token: token, Connections: connections, Receiver: receiver}
	return p, nil
}

// startOwn runs an api to which the workers that are started later lead.
func (s *stack) startOwn() (address string, api *exec.Cmd, err error) {
	if address, api, err = s.startAPI(); err == nil {
		s.env = append(s.env, "ADMIN_ADDR=127.0.0.1:0", "ESTIMATES_WEBHOOK_BASE_URL=http://"+address)
	}
	return address, api, err
}

// startWorker starts a worker and waits until it has delivered everything that was accepted before.
func (p *pipeline) startWorker(ctx context.Context) (err error) {
	if p.worker, _, err = p.start("worker"); err != nil {
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

// intake posts as fast as answers come while no worker runs, which is then started and drains what was taken in.
func (p *pipeline) intake(ctx context.Context, l limits, drawn *plot) error {
	plan := p.plan
	plan.Duration, plan.FirstID, plan.Receiver = loadDuration, p.nextID, ""
	before := p.cpu()
	result, err := p.load(ctx, plan)
	if err != nil {
		return err
	}
	used := p.cpu().since(before)
	p.nextID += result.Accepted + result.Other
	fmt.Printf("intake alone, as fast as answers come, %d connections\n", connections)
	fmt.Printf("  accepted/s                     %8.0f   %.2f of H, p50 %s p99 %s\n", result.perSecond(),
		result.perSecond()/l.composed(), milliseconds(result.P50), milliseconds(result.P99))
	fmt.Printf("  CPU s per 1,000 accepted       %8.3f   %s\n", used.per1000(result.Accepted),
		used.shares(result.Accepted))
	drawn.atLeast("intake, accepted/s of H", result.perSecond()/l.composed(), 0.85)
	drawn.atMost("intake, p99 of p50", float64(result.P99)/float64(result.P50), 6)
	return result.flawless()
}

// show prints the pipeline's own figures.
func (f figures) show(l limits, drawn *plot) {
	fmt.Printf("pipeline, as fast as answers come, %d connections\n", connections)
	fmt.Printf("  accepted/s                     %8.0f   %.2f of H, p50 %s p99 %s\n", f.flat.perSecond(),
		f.flat.perSecond()/l.composed(), milliseconds(f.flat.P50), milliseconds(f.flat.P99))
	fmt.Printf("  delivered/s, to the last one   %8.0f   while posting %.0f\n", f.delivered(),
		float64(f.flat.DeliveredWhilePosting)/f.flat.Seconds)
	fmt.Printf("  CPU s per 1,000 delivered      %8.3f   %s\n", f.cpu(), f.used.shares(f.flat.Delivered))
	fmt.Printf("  MiB held by all, PSS, at most  %s\n", f.held)
	fmt.Printf("pipeline, %d requests/s, the run of three with the middle p99\n", pacedRate)
	fmt.Printf("  POST answered                  p50 %s  p99 %s\n", milliseconds(f.paced.P50), milliseconds(f.paced.P99))
	fmt.Printf("  publish to delivery            p50 %s  p95 %s  p99 %s\n", milliseconds(f.paced.Delivery50),
		milliseconds(f.paced.Delivery95), milliseconds(f.paced.Delivery99))
	drawn.atLeast("intake with a worker on the same cores, of H", f.flat.perSecond()/l.composed(), 0.85)
	drawn.atMost(fmt.Sprintf("publish to delivery at %d/s, p50 ms", pacedRate), inMilliseconds(f.paced.Delivery50), 8)
	drawn.atMost(fmt.Sprintf("publish to delivery at %d/s, p99 ms", pacedRate), inMilliseconds(f.paced.Delivery99), 25)
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
}
