package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

const (
	receiversVariable = "RECEIVERS" // how many there are
	receiversDefault  = 10_000
	waitingEach       = 10 // deliveries that wait for each
	idleFor           = 20 * time.Second
	slowCall          = 2 * time.Second
	crowdLimit        = 8 // RECEIVER_CONCURRENCY of each receiver of a crowd; a slow one gets a quarter of it
	crowdWithin       = 5 * time.Minute
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
		{"scale", p.scale},
		{"killed", p.killed},
		{"idle", func(ctx context.Context) error { return p.idle(ctx, n) }},
		{"crowd", func(ctx context.Context) error { return p.amongMany(ctx, n) }},
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

// scale measures the same load with more and more workers.
func (p *pipeline) scale(ctx context.Context) error {
	fmt.Printf("workers    CPU s per 1,000   delivered/s   p50 at %d/s   memory of all workers\n", pacedRate)
	for _, n := range []int{1, 2, 4, 8} {
		workers, stop, err := p.startWorkers(n)
		if err != nil {
			return err
		}
		if err := p.warm(ctx); err != nil {
			return err
		}
		before := p.cpu()
		flat, err := p.run(ctx, loadDuration, 0)
		if err != nil {
			return err
		}
		used := p.cpu().since(before)
		paced, err := p.run(ctx, loadDuration, pacedRate)
		if err != nil {
			return err
		}
		memory := 0
		for _, worker := range workers {
			memory += peakMemory(worker.Process.Pid)
		}
		fmt.Printf("%7d    %15.3f   %11.0f   %11s   %d MiB   (%s)\n", n, used.per1000(flat.Delivered),
			float64(flat.Delivered)/flat.DrainSeconds,
			milliseconds(paced.Delivery50), memory, used.shares(flat.Delivered))
		if err := stop(); err != nil {
			return err
		}
	}
	return nil
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

// perSecond is how many transactions PostgreSQL commits a second, and how much of a core it takes.
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
			SELECT 'sup_idle' || n, n % 256, (extract(epoch FROM now()) + 3600) * 1000000, 1 FROM generate_series(1, $1::int) AS n ON CONFLICT DO NOTHING`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series, next_attempt_at, created_at, updated_at)
			SELECT 'msg_idle' || n || '-' || i, 1000000000 + 10 * n + i, 1, 'sup_idle' || n, 'sup_idle' || n, i, 'pending', 0, 0, (extract(epoch FROM now()) + 3600) * 1000000, 1, 1
			FROM generate_series(1, $1::int) AS n, generate_series(1, ` + strconv.Itoa(waitingEach) + `) AS i ON CONFLICT DO NOTHING`,
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

// look is the time of one look at all shards, as one worker alone makes it.
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
		err := conn.QueryRow(ctx, `SELECT count(*) FROM (SELECT supplier_id FROM webhook_receivers WHERE due_at IS NOT NULL AND paused_by = ''
			AND due_at <= $2 AND shard = ANY($1)) AS due`, shards, start.UnixMicro()).Scan(&due)
		if err != nil {
			return 0, err
		}
		took += time.Since(start)
	}
	return took / looks, nil
}

// crowd serves many receivers by their names in the path and counts what each of them sees.
type crowd struct {
	mu     sync.Mutex
	atOnce map[string]int
	calls  map[string][]time.Time // of failing ones
	most   int                    // calls at once to one slow receiver
}

func (c *crowd) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	c.mu.Lock()
	if strings.HasPrefix(name, "dead") {
		c.calls[name] = append(c.calls[name], time.Now())
		c.mu.Unlock()
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	c.atOnce[name]++
	c.most = max(c.most, c.atOnce[name])
	c.mu.Unlock()
	wait(r.Context(), slowCall)
	c.mu.Lock()
	c.atOnce[name]--
	c.mu.Unlock()
}

// closest is the least time between two calls of a receiver whose failures were known, and how many calls those had:
// the fifth was answered a second before, so that none of these calls was under way then.
func (c *crowd) closest() (least time.Duration, calls int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	least = time.Hour
	for _, at := range c.calls {
		for i := dispatch.FailingAt; i < len(at); i++ {
			if at[i-1].Sub(at[dispatch.FailingAt-1]) > time.Second {
				least = min(least, at[i].Sub(at[i-1]))
				calls++
			}
		}
	}
	return least, calls
}

// amongMany measures a healthy supplier beside receivers of which three in ten are dead and one in ten is slow.
func (p *pipeline) amongMany(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, crowdWithin)
	defer cancel()
	p.env = append(p.env, "LOG_LEVEL=error") // each receiver that fails is a warning
	workers, stop, err := p.startWorkers(4)
	if err != nil {
		return err
	}
	if err := p.warm(ctx); err != nil {
		return err
	}
	alone, err := p.median(ctx, func() (loadResult, error) { return p.run(ctx, loadDuration, neighbourRate) })
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	others := &crowd{atOnce: map[string]int{}, calls: map[string][]time.Time{}}
	server := &http.Server{Handler: others, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	defer server.Close()
	if err := p.populate(ctx, n, "http://"+l.Addr().String()); err != nil {
		return err
	}
	wait(ctx, 2*loadDuration) // the dead ones are found to be
	beside, err := p.median(ctx, func() (loadResult, error) { return p.run(ctx, loadDuration, neighbourRate) })
	if err != nil {
		return err
	}
	least, calls := others.closest()
	fmt.Printf("%d workers, a healthy supplier at %d/s alone: p50 %s p99 %s; among %d receivers, %d dead and %d slow: p50 %s p99 %s, %.2f times\n", len(workers),
		neighbourRate, milliseconds(alone.Delivery50), milliseconds(alone.Delivery99), n, 3*n/10, n/10,
		milliseconds(beside.Delivery50),
		milliseconds(beside.Delivery99), float64(beside.Delivery99)/float64(alone.Delivery99))
	fmt.Printf("  a dead receiver: %d probes seen, two of one receiver at least %s apart; a slow receiver saw at most %d calls at once, of %d\n", calls,
		least.Round(time.Millisecond), others.most, crowdLimit)
	return stop()
}

// populate makes the suppliers of a crowd, each with deliveries that are due.
func (p *pipeline) populate(ctx context.Context, n int, address string) error {
	db, err := database.Open(ctx, database.Config{URL: p.database(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer db.Close()
	suppliers, err := supplierauth.New(supplierauth.Deps{
		DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now, SigningKeys: p.setting("JWT_SIGNING_KEYS"),
		SecretsKeys: p.setting("SECRETS_KEY"), AllowPrivateWebhooks: true, ReceiverConcurrency: 64,
	})
	if err != nil {
		return err
	}
	defer suppliers.Close()
	ids := make([]string, 4*n/10) // the others are well and have nothing to do: they are not even asked for
	group, creating := errgroup.WithContext(ctx)
	group.SetLimit(connections / 2)
	for i := range ids {
		group.Go(func() error {
			kind := "dead"
			if i%4 == 3 {
				kind = "slow"
			}
			created, err := suppliers.CreateSupplier(creating, supplierauth.NewSupplier{
				Name: "bench", WebhookURL: fmt.Sprintf("%s/%s%d", address, kind, i), AccessTTL: time.Hour,
				RefreshTTL: 2 * time.Hour,
				Scopes:     supplierauth.DefaultScopes(), ReceiverConcurrency: new(crowdLimit),
			})
			if err == nil {
				ids[i] = created.Supplier.ID
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	return p.makeDue(ctx, ids)
}

// setting is what the stack's processes are given.
func (s *stack) setting(name string) string {
	for _, entry := range s.env {
		if value, found := strings.CutPrefix(entry, name+"="); found {
			return value
		}
	}
	return ""
}

// makeDue stores deliveries that are due for the suppliers.
func (p *pipeline) makeDue(ctx context.Context, ids []string) error {
	conn, err := pgx.Connect(ctx, p.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	shards := make([]int64, len(ids))
	for i, id := range ids {
		shards[i] = int64(dispatch.ShardOf(id))
	}
	const each = 2 * waitingEach
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after Commit
	for _, statement := range []string{
		`INSERT INTO webhook_events (uid, round, trace_id, body, created_at)
			SELECT 2000000000 + n * 100 + i, 1, '', '{}', 1 FROM generate_series(1, cardinality($1::text[])) AS n, generate_series(1, $3::int) AS i
			WHERE cardinality($2::bigint[]) > 0`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series, next_attempt_at, created_at, updated_at)
			SELECT 'msg_crowd' || n || '-' || i, 2000000000 + n * 100 + i, 1, ($1::text[])[n], ($1::text[])[n], i, 'pending', 0, 0, n, 1, 1
			FROM generate_series(1, cardinality($1::text[])) AS n, generate_series(1, $3::int) AS i WHERE cardinality($2::bigint[]) > 0`,
		`INSERT INTO webhook_receivers (supplier_id, shard, due_at, updated_at)
			SELECT s, h, $3::bigint, 1 FROM unnest($1::text[], $2::bigint[]) AS r(s, h)`,
	} {
		if _, err := tx.Exec(ctx, statement, ids, shards, each); err != nil {
			return fmt.Errorf("store deliveries: %w", err)
		}
	}
	return tx.Commit(ctx)
}
