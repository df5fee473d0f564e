package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"
)

const (
	receiversVariable = "RECEIVERS" // how many there are
	receiversDefault  = 10_000
	waitingEach       = 10 // deliveries that wait for each
	slowCall          = 2 * time.Second
	manyLimit         = 8 // RECEIVER_CONCURRENCY of each of many receivers; a slow one gets a quarter of it
	manyWithin        = 5 * time.Minute
	manyTurns         = 5
)

// receiversBench measures what many receivers and many workers cost.
func receiversBench(ctx context.Context, s *stack) error {
	n := receiversDefault
	if text := os.Getenv(receiversVariable); text != "" {
		var err error
		if n, err = strconv.Atoi(text); err != nil {
			return fmt.Errorf("%s: %w", receiversVariable, err)
		}
	}
	p, err := s.started(ctx)
	if err != nil {
		return err
	}
	fmt.Println(machine())
	for _, part := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"scale", scale},
		{"many", func(ctx context.Context) error { return p.amongMany(ctx, n) }},
	} {
		if len(os.Args) > 2 && !slices.Contains(os.Args[2:], part.name) {
			continue
		}
		start := time.Now()
		if err := part.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
		fmt.Printf("  (%s: %s)\n", part.name, time.Since(start).Round(time.Second))
	}
	return nil
}

// startWorkers runs so many workers; stop ends them.
func (p *pipeline) startWorkers(n int) (workers []*exec.Cmd, stop func() error, err error) {
	for range n {
		worker, err := p.start("worker")
		if err != nil {
			return nil, nil, err
		}
		workers = append(workers, worker)
	}
	return workers, func() (err error) {
		for _, worker := range workers {
			err = errors.Join(err, p.stop(worker))
		}
		return err
	}, nil
}
