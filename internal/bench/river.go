package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"
)

// riverModule is the core of the work built with River, in a module of its own.
const riverModule = "deployments/bench/river"

// peer is a build with River that the service is measured beside.
type peer struct {
	name, does string
	own        bool // serves an endpoint of its own too
}

var (
	oneWebhook   = peer{"River", "sends one webhook a request and neither estimates nor logs attempts", false}
	bothWebhooks = peer{"River with both webhooks", "keeps requests and stores what its own endpoint gets, too", true}
)

// besidePeers measures the builds with River one after the other and shows ours beside them.
func (s *stack) besidePeers(ctx context.Context, ours figures, drawn *plot) error {
	build := exec.CommandContext(ctx, "go", "build", "-C", riverModule, "-o", filepath.Join(s.dir, "river"), ".")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w: %s", riverModule, err, out)
	}
	for _, p := range []peer{oneWebhook, bothWebhooks} {
		theirs, err := s.figuresOf(ctx, p)
		if err != nil {
			return fmt.Errorf("%s: %w", p.name, err)
		}
		ours.beside(p, theirs, drawn)
	}
	return nil
}

// figuresOf measures such a build under the same load, in a database of its own, while nothing else runs.
func (s *stack) figuresOf(ctx context.Context, of peer) (f figures, err error) {
	database, err := s.createDatabase(ctx)
	if err != nil {
		return f, err
	}
	var ports [2]int
	for i := range ports {
		if ports[i], err = freePort(); err != nil {
			return f, err
		}
	}
	address, receiver := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	env := s.env
	defer func() { s.env = env }()
	s.env = []string{"PATH=" + os.Getenv("PATH"), "DATABASE_URL=" + database, "HTTP_ADDR=" + address,
		"RECEIVER_URL=http://" + receiver + "/hook"}
	if of.own {
		s.env = append(s.env, "OWN_URL=http://"+address+"/estimates")
	}
	migrate, _, err := s.start("river", "migrate")
	if err != nil {
		return f, err
	}
	if err := migrate.Wait(); err != nil {
		return f, fmt.Errorf("migrate River: %w", err)
	}
	api, _, err := s.start("river", "api")
	if err != nil {
		return f, err
	}
	worker, _, err := s.start("river", "worker")
	if err != nil {
		return f, err
	}
	if err := until(func() bool { return listens(address) }); err != nil {
		return f, err
	}
	p := &pipeline{stack: s, nextID: 1, plan: loadPlan{Address: address, Path: "/", Token: "none",
		Connections: connections, Receiver: receiver}}
	if err := p.warm(ctx); err != nil {
		return f, err
	}
	if f, err = p.figures(ctx); err != nil {
		return f, err
	}
	return f, errors.Join(s.stop(worker), s.stop(api))
}

// figures are those of one pipeline, ours or the peer's.
type figures struct {
	flat, paced loadResult
	used        usage     // of the flat run
	held        footprint // at most, in the flat run
}

func (f figures) delivered() float64 { return float64(f.flat.Delivered) / f.flat.DrainSeconds }

func (f figures) cpu() float64 { return f.used.per1000(f.flat.Delivered) }

// figures posts as fast as answers come, and then at a steady rate.
func (p *pipeline) figures(ctx context.Context) (f figures, err error) {
	before := p.cpu()
	looking, stop := context.WithCancel(ctx)
	var looker sync.WaitGroup
	looker.Go(func() { f.held = p.most(looking) })
	f.flat, err = p.run(ctx, loadDuration, 0)
	stop()
	looker.Wait()
	if err != nil {
		return f, err
	}
	f.used = p.cpu().since(before)
	if err := p.tidy(ctx); err != nil { // what the burst left to PostgreSQL is not part of a steady rate
		return f, err
	}
	f.paced, err = p.median(ctx, func() (loadResult, error) { return p.run(ctx, loadDuration, pacedRate) })
	return f, err
}

// beside prints ours beside the peer's.
func (f figures) beside(of peer, theirs figures, drawn *plot) {
	fmt.Printf("beside %s, which %s\n", of.name, of.does)
	for _, line := range []struct {
		name, form   string
		ours, theirs float64
	}{
		{"accepted/s", "%8.0f", f.flat.perSecond(), theirs.flat.perSecond()},
		{"delivered/s, to the last one", "%8.0f", f.delivered(), theirs.delivered()},
		{"CPU s per 1,000 delivered", "%8.3f", f.cpu(), theirs.cpu()},
		{fmt.Sprintf("delivery at %d/s, p50 ms", pacedRate), "%8.1f", inMilliseconds(f.paced.Delivery50),
			inMilliseconds(theirs.paced.Delivery50)},
		{fmt.Sprintf("delivery at %d/s, p99 ms", pacedRate), "%8.1f", inMilliseconds(f.paced.Delivery99),
			inMilliseconds(theirs.paced.Delivery99)},
	} {
		fmt.Printf("  %-30s "+line.form+"   River "+line.form+"   %.2f times\n", line.name, line.ours, line.theirs,
			line.ours/line.theirs)
	}
	drawn.atLeast("delivered/s, of those of "+of.name, f.delivered()/theirs.delivered(), 2)
	drawn.atMost("CPU per delivery, of that of "+of.name, f.cpu()/theirs.cpu(), 0.5)
}

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
