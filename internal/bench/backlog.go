package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

// backlog lets requests pile up without a worker and measures how they are worked off.
func (p *pipeline) backlog(ctx context.Context, drawn *plot) error {
	fmt.Printf("backlog, worked off with no request coming in\n")
	var rates []float64
	for _, run := range []struct {
		requests int64
		workers  int
	}{{2_000, 1}, {200_000, 1}, {20_000, 1}, {20_000, 2}} {
		result, memory, err := p.pileUp(ctx, run.requests, run.workers)
		if err != nil {
			return fmt.Errorf("%d requests: %w", run.requests, err)
		}
		rates = append(rates, float64(result.Delivered)/result.DeliverySeconds)
		fmt.Printf("  %7d requests, %d worker      %8.0f delivered/s   a worker holds at most %d MiB\n",
			run.requests, run.workers, float64(result.Delivered)/result.DeliverySeconds, memory)
	}
	drawn.atLeast("delivered/s of a backlog of 200,000, of one of 20,000", rates[1]/rates[2], 0.8)
	return nil
}

func (p *pipeline) pileUp(ctx context.Context, requests int64, workers int) (loadResult, int, error) {
	plan := p.plan
	plan.Requests, plan.Duration, plan.FirstID = requests, 10*time.Minute, p.nextID
	type ended struct {
		result loadResult
		err    error
	}
	done := make(chan ended, 1)
	go func() {
		result, err := p.load(ctx, plan)
		done <- ended{result, err}
	}()
	if err := p.enqueued(ctx, requests); err != nil {
		return loadResult{}, 0, err
	}
	running := make([]*exec.Cmd, workers)
	for i := range running {
		var err error
		if running[i], _, err = p.start("worker"); err != nil {
			return loadResult{}, 0, err
		}
	}
	end := <-done
	p.nextID += requests + connections
	memory, errs := 0, []error{end.err}
	for _, worker := range running {
		memory = max(memory, peakMemory(worker.Process.Pid))
		errs = append(errs, p.stop(worker))
	}
	return end.result, memory, errors.Join(errs...)
}

// enqueued waits until so many requests are stored and not worked on.
func (s *stack) enqueued(ctx context.Context, requests int64) error {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); wait(ctx, 100*time.Millisecond) {
		var n int64
		if err := conn.QueryRow(ctx, "SELECT count(*) FROM material_requests WHERE ticket IS NOT NULL").Scan(&n); err != nil {
			return err
		}
		if n >= requests {
			return nil
		}
	}
	return errors.New("they were not enqueued within two minutes")
}

// peakMemory returns the most memory that the process had, in MiB.
func peakMemory(pid int) int {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmHWM: %d kB", &kib); n == 1 {
			return kib / 1024
		}
	}
	return 0
}

// embedded measures the default without PostgreSQL and NATS, beside SQLite's group commit alone.
func (s *stack) embedded(ctx context.Context, drawn *plot) error {
	env := s.env
	defer func() { s.env = env }()
	s.env = nil
	for _, entry := range env {
		if !strings.HasPrefix(entry, "DATABASE_URL=") && !strings.HasPrefix(entry, "NATS_URL=") &&
			!strings.HasPrefix(entry, "ESTIMATES_WEBHOOK_BASE_URL=") {
			s.env = append(s.env, entry)
		}
	}
	spare := s.spareDatabase
	s.spareDatabase = "" // then bare-rows takes SQLite
	stored, err := s.rate("bare-rows")
	s.spareDatabase = spare
	if err != nil {
		return fmt.Errorf("bare rows of SQLite: %w", err)
	}
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
	fmt.Printf("embedded: SQLite (synchronous FULL), JetStream and the worker in one process\n")
	fmt.Printf("  accepted/s                     %8.0f   SQLite's group commit alone %.0f/s, p50 %s p99 %s\n",
		result.perSecond(), stored, milliseconds(result.P50), milliseconds(result.P99))
	fmt.Printf("  delivered/s, to the last one   %8.0f\n", float64(result.Delivered)/result.DrainSeconds)
	drawn.atLeast("embedded, accepted/s", result.perSecond(), 2000)
	return s.stop(p.api)
}
