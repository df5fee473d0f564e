package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

const (
	// riverModule is a service that does the same work with River, in a module of its own: it verifies tokens, validates,
	// stores a request once, estimates, and sends both webhooks. It keeps no lists, no counts and no log of attempts.
	riverModule   = "deployments/bench/river"
	roundsOfPeers = 5
)

// againstRiver measures the service and the one with River in turns, on a machine whose speed changes by the minute.
func againstRiver(ctx context.Context) error {
	ours, river := &contender{name: "this tree", workers: 1}, &contender{name: "River", peer: true}
	if err := inTurns(ctx, []*contender{ours, river}, roundsOfPeers); err != nil {
		return err
	}
	fmt.Printf("ours of River: %.2f times its delivered/s for %.2f of its CPU\n",
		1/river.ratio(ours, deliveredFigure, 0.5), 1/river.ratio(ours, cpuFigure, 0.5))
	return nil
}

// startPeer runs it in a database of its own, its two processes under our names.
func (s *stack) startPeer(ctx context.Context) (*pipeline, error) {
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
		"RECEIVER_URL=http://" + receiver + "/hook", "OWN_URL=http://" + address + "/estimates"}
	token, err := s.command(ctx, "token")
	if err != nil {
		return nil, err
	}
	migrate, err := s.start("api", "migrate")
	if err != nil {
		return nil, err
	}
	if err := migrate.Wait(); err != nil {
		return nil, fmt.Errorf("migrate River: %w", err)
	}
	p := &pipeline{stack: s, nextID: 1, plan: loadPlan{Address: address, Path: "/",
		Token: strings.TrimSpace(string(token)), Connections: connections, Receiver: receiver}}
	if p.api, err = s.start("api", "api"); err != nil {
		return nil, err
	}
	if p.worker, err = s.start("worker", "worker"); err != nil {
		return nil, err
	}
	return p, until(func() bool { return listens(address) })
}
