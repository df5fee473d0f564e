package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	// riverModule is the core of the work built with River, in a module of its own.
	riverModule   = "deployments/bench/river"
	roundsOfPeers = 5
)

// peer is a build with River that the service is measured beside.
type peer struct {
	name, does  string
	own         bool    // serves an endpoint of its own too
	whole       bool    // and authenticates, validates and estimates
	times, part float64 // goals: times its delivered/s, for this part of its CPU
}

var (
	oneWebhook = peer{name: "River", does: "sends one webhook a request and neither estimates nor logs attempts",
		times: 2, part: 0.5}
	bothWebhooks = peer{name: "River, both webhooks", does: "keeps requests and stores what its own endpoint gets, too",
		own: true, times: 3, part: 0.3}
	sameWork = peer{name: "River, the same work", does: "verifies tokens, validates, stores a request once and " +
		"estimates, too; it keeps no counts, no lists and no log of attempts, and packs nothing",
		own: true, whole: true, times: 3, part: 0.3}
)

// besideRiver measures the service and the builds with River in turns, on a machine whose speed changes by the minute.
func besideRiver(ctx context.Context, drawn *plot) error {
	ours := &contender{name: "this tree", workers: 1}
	var others []*contender
	for _, p := range []*peer{&sameWork, &bothWebhooks, &oneWebhook} {
		fmt.Printf("%s: %s\n", p.name, p.does)
		others = append(others, &contender{name: p.name, peer: p})
	}
	if err := inTurns(ctx, append([]*contender{ours}, others...), roundsOfPeers); err != nil {
		return err
	}
	for _, c := range others {
		more, cheaper := 1/c.ratio(ours, deliveredFigure, 0.5), 1/c.ratio(ours, cpuFigure, 0.5)
		fmt.Printf("ours of %s: %.2f times its delivered/s for %.2f of its CPU\n", c.name, more, cheaper)
		drawn.atLeast("delivered/s, of those of "+c.name, more, c.peer.times)
		drawn.atMost("CPU per delivery, of that of "+c.name, cheaper, c.peer.part)
	}
	return nil
}

// startPeer runs such a build in a database of its own, its two processes under the names of ours.
func (s *stack) startPeer(ctx context.Context, of *peer) (*pipeline, error) {
	for _, name := range []string{"api", "worker"} {
		cmd := exec.CommandContext(ctx, "go", "build", "-C", riverModule, "-o", filepath.Join(s.dir, name), ".")
		if out, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build %s: %w: %s", riverModule, err, out)
		}
	}
	var ports [2]int
	for i := range ports {
		var err error
		if ports[i], err = freePort(); err != nil {
			return nil, err
		}
	}
	address, receiver := fmt.Sprintf("127.0.0.1:%d", ports[0]), fmt.Sprintf("127.0.0.1:%d", ports[1])
	s.env = []string{"PATH=" + os.Getenv("PATH"), "DATABASE_URL=" + s.database(), "HTTP_ADDR=" + address,
		"RECEIVER_URL=http://" + receiver + "/hook"}
	if of.own {
		s.env = append(s.env, "OWN_URL=http://"+address+"/estimates")
	}
	if of.whole {
		s.env = append(s.env, "ESTIMATE=1")
	}
	token, err := s.command(ctx, "token")
	if err != nil {
		return nil, err
	}
	migrate, _, err := s.start("api", "migrate")
	if err != nil {
		return nil, err
	}
	if err := migrate.Wait(); err != nil {
		return nil, fmt.Errorf("migrate River: %w", err)
	}
	p := &pipeline{stack: s, nextID: 1, plan: loadPlan{Address: address, Path: "/",
		Token: strings.TrimSpace(string(token)), Connections: connections, Receiver: receiver}}
	if p.api, _, err = s.start("api", "api"); err != nil {
		return nil, err
	}
	if p.worker, _, err = s.start("worker", "worker"); err != nil {
		return nil, err
	}
	return p, until(func() bool { return listens(address) })
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

func inMilliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
