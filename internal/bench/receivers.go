package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	receiversVariable = "RECEIVERS" // how many there are
	receiversDefault  = 10_000
	waitingEach       = 10 // deliveries that wait for each
	idleFor           = 20 * time.Second
	slowCall          = 2 * time.Second
	manyLimit         = 8 // RECEIVER_CONCURRENCY of each of many receivers; a slow one gets a quarter of it
	manyWithin        = 5 * time.Minute
	manyTurns         = 5
	killEvery         = 3 * time.Second
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
		{"killed", p.killed},
		{"idle", func(ctx context.Context) error { return p.idle(ctx, n) }},
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
		worker, _, err := p.start("worker")
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

// killed kills workers in turn under load, and accounts for everything.
func (p *pipeline) killed(ctx context.Context) error {
	workers, _, err := p.startWorkers(4)
	if err != nil {
		return err
	}
	if err := p.warm(ctx); err != nil {
		return err
	}
	ended := make(chan error, 1)
	var result loadResult
	go func() {
		var err error
		result, err = p.run(ctx, 4*killEvery+time.Second, pacedRate)
		ended <- err
	}()
	for i, worker := range workers {
		wait(ctx, killEvery)
		if err := worker.Process.Kill(); err != nil {
			return err
		}
		_ = worker.Wait() // it was killed
		if workers[i], _, err = p.start("worker"); err != nil {
			return err
		}
	}
	if err := <-ended; err != nil {
		return err
	}
	wait(ctx, 2*killEvery)
	out, err := p.command(ctx, "verify")
	fmt.Printf("workers killed in turn: %d of %d delivered, p99 %s; api verify: %s\n", result.Delivered, result.Accepted,
		milliseconds(result.Delivery99),
		strings.TrimSpace(string(out)))
	for _, worker := range workers {
		err = errors.Join(err, p.stop(worker))
	}
	return err
}

// idle measures workers that have nothing to do while deliveries wait for many receivers.
func (p *pipeline) idle(ctx context.Context, n int) error {
	conn, err := pgx.Connect(ctx, p.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, receivers := range []int{n, 10 * n} {
		if err := waiting(ctx, conn, receivers, n); err != nil {
			return err
		}
		took, err := look(ctx, conn)
		if err != nil {
			return err
		}
		fmt.Printf("%d receivers with deliveries due in an hour: looking for what is due takes %s\n", receivers,
			milliseconds(took))
	}
	without, _, err := p.perSecond(ctx, conn)
	if err != nil {
		return err
	}
	const idle = 8
	_, stop, err := p.startWorkers(idle)
	if err != nil {
		return err
	}
	wait(ctx, idleFor/2) // they share the shards
	with, cpu, err := p.perSecond(ctx, conn)
	if err != nil {
		return err
	}
	fmt.Printf("%d idle workers: PostgreSQL takes %.1f %% of a core, %.1f transactions/s of each worker\n", idle, 100*cpu,
		(with-without)/idle)
	return stop()
}

// perSecond returns how many transactions PostgreSQL commits a second, and how much of a core it takes.
func (p *pipeline) perSecond(ctx context.Context, conn *pgx.Conn) (transactions, cpu float64, err error) {
	count := func() (n int64, err error) {
		err = conn.QueryRow(ctx, `SELECT xact_commit FROM pg_stat_database WHERE datname = current_database()`).Scan(&n)
		return n, err
	}
	before, err := count()
	if err != nil {
		return 0, 0, err
	}
	used := p.postgresCPU()
	wait(ctx, idleFor)
	used = p.postgresCPU() - used
	after, err := count()
	return float64(after-before) / idleFor.Seconds(), used.Seconds() / idleFor.Seconds(), err
}

// waiting stores receivers with deliveries that are due in an hour; those behind the first with have none.
func waiting(ctx context.Context, conn *pgx.Conn, receivers, with int) error {
	for _, statement := range []string{
		`INSERT INTO webhook_receivers (supplier_id, shard, due_at, updated_at)
			SELECT 'sup_idle' || n, n % 256, (extract(epoch FROM now()) + 3600) * 1000000, 1
			FROM generate_series(1, $1::int) AS n ON CONFLICT DO NOTHING`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at)
			SELECT 'msg_0idle' || n || '-' || i, 1000000000 + 10 * n + i, 1, 'sup_idle' || n, 'sup_idle' || n, i,
				'pending', 0, 0, (extract(epoch FROM now()) + 3600) * 1000000, 1, 1
			FROM generate_series(1, $1::int) AS n, generate_series(1, ` + strconv.Itoa(waitingEach) + `) AS i
			ON CONFLICT DO NOTHING`,
	} {
		count := receivers
		if strings.Contains(statement, "webhook_deliveries") {
			count = with
		}
		if _, err := conn.Exec(ctx, statement, count); err != nil {
			return err
		}
	}
	_, err := conn.Exec(ctx, `VACUUM (ANALYZE)`)
	return err
}

// look returns the time of one look at all shards, as one worker alone makes it.
func look(ctx context.Context, conn *pgx.Conn) (took time.Duration, err error) {
	shards := make([]int64, 256)
	for i := range shards {
		shards[i] = int64(i)
	}
	if _, err := conn.Exec(ctx, `SET enable_seqscan = off`); err != nil { // as the service has it
		return 0, err
	}
	const looks = 20
	for range looks {
		start := time.Now()
		var due int
		err := conn.QueryRow(ctx, `SELECT count(*) FROM (SELECT supplier_id FROM webhook_receivers
			WHERE due_at IS NOT NULL AND paused_by = '' AND due_at <= $2 AND shard = ANY($1)) AS due`,
			shards, start.UnixMicro()).Scan(&due)
		if err != nil {
			return 0, err
		}
		took += time.Since(start)
	}
	return took / looks, nil
}

// setting returns what the stack's processes are given.
func (s *stack) setting(name string) string {
	for _, entry := range s.env {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}
