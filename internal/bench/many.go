package main

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// manyReceivers serves many receivers by their names in the path and counts what each of them sees.
type manyReceivers struct {
	mu     sync.Mutex
	atOnce map[string]int
	most   int // calls at once to one slow receiver
}

func (c *manyReceivers) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if strings.HasPrefix(name, "dead") {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	c.mu.Lock()
	c.atOnce[name]++
	c.most = max(c.most, c.atOnce[name])
	c.mu.Unlock()
	wait(r.Context(), slowCall)
	c.mu.Lock()
	c.atOnce[name]--
	c.mu.Unlock()
}

// amongMany measures a healthy supplier among receivers of which three in ten are dead and one in ten is slow.
func (p *pipeline) amongMany(ctx context.Context, n int) error {
	ctx, cancel := context.WithTimeout(ctx, manyWithin)
	defer cancel()
	p.env = append(p.env, "LOG_LEVEL=error") // each receiver that fails is a warning
	workers, stop, err := p.startWorkers(4)
	if err != nil {
		return err
	}
	if err := p.warm(ctx); err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	others := &manyReceivers{atOnce: map[string]int{}}
	server := &http.Server{Handler: others, ReadHeaderTimeout: time.Second}
	go func() { _ = server.Serve(l) }() // ends with Close
	defer server.Close()
	ids, err := p.populate(ctx, n, "http://"+l.Addr().String())
	if err != nil {
		return err
	}
	wait(ctx, 2*loadDuration) // the dead ones are found to be
	alone, among, err := p.inTurns(ctx, ids)
	if err != nil {
		return err
	}
	fmt.Printf("%d workers, a healthy supplier at %d/s alone: p50 %s p99 %s; next to %d dead and %d slow receivers: "+
		"p50 %s p99 %s, %.2f times\n", len(workers), neighbourRate, milliseconds(alone.Delivery50),
		milliseconds(alone.Delivery99), 3*n/10, n/10, milliseconds(among.Delivery50),
		milliseconds(among.Delivery99), float64(among.Delivery99)/float64(alone.Delivery99))
	fmt.Printf("  a slow receiver saw at most %d calls at once, of %d\n", others.most, manyLimit)
	return stop()
}

// inTurns measures the healthy supplier while the others are paused and while they are not, a few times each, and
// returns the runs with the middle p99.
func (p *pipeline) inTurns(ctx context.Context, others []string) (alone, among loadResult, err error) {
	conn, err := pgx.Connect(ctx, p.database())
	if err != nil {
		return alone, among, err
	}
	defer conn.Close(ctx)
	runs := map[string][]loadResult{}
	for range manyTurns {
		for _, pausedBy := range []string{"operator", ""} {
			_, err := conn.Exec(ctx, `UPDATE webhook_receivers r SET paused_by = $1 FROM (SELECT supplier_id
				FROM webhook_receivers WHERE supplier_id = ANY($2) ORDER BY supplier_id FOR UPDATE) AS locked
				WHERE r.supplier_id = locked.supplier_id`, pausedBy, others)
			if err != nil {
				return alone, among, fmt.Errorf("pause the others: %w", err)
			}
			wait(ctx, 2*slowCall) // calls under way end, and due deliveries are found
			run, err := p.run(ctx, loadDuration, neighbourRate)
			if err != nil {
				return alone, among, err
			}
			runs[pausedBy] = append(runs[pausedBy], run)
			fmt.Printf("  p99 %s, others paused: %t\n", milliseconds(run.Delivery99), pausedBy != "")
		}
	}
	for _, list := range runs {
		slices.SortFunc(list, func(a, b loadResult) int { return cmp.Compare(a.Delivery99, b.Delivery99) })
	}
	return runs["operator"][manyTurns/2], runs[""][manyTurns/2], nil
}

// populate makes many suppliers, each with deliveries that are due, and returns them.
func (p *pipeline) populate(ctx context.Context, n int, address string) ([]string, error) {
	db, err := database.Open(ctx, database.Config{URL: p.database(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	defer db.Close()
	suppliers, err := supplierauth.New(supplierauth.Deps{
		DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now, Latest: time.Now, Local: time.Now,
		SigningKeys: p.variable("JWT_SIGNING_KEYS"),
		SecretsKeys: p.variable("SECRETS_KEY"), AllowPrivateWebhooks: true, ReceiverConcurrency: 64,
	})
	if err != nil {
		return nil, err
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
			created, err := suppliers.CreateSupplier(creating, supplierauth.Supplier{
				Name: "bench", WebhookURL: fmt.Sprintf("%s/%s%d", address, kind, i), AccessTTL: time.Hour,
				RefreshTTL: 2 * time.Hour,
				Scopes:     supplierauth.DefaultScopes(), ReceiverConcurrency: new(manyLimit),
			})
			if err == nil {
				ids[i] = created.Supplier.ID
			}
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return ids, p.makeDue(ctx, ids)
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
		shards[i] = int64(round.ShardOf(id))
	}
	const each = 2 * waitingEach
	tx, err := conn.Begin(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback(ctx) }() // does nothing after Commit
	for _, statement := range []string{
		`INSERT INTO webhook_events (uid, round, supplier_id, trace_id, body, created_at)
			SELECT 2000000000 + n * 100 + i, 1, ($1::text[])[n], '', '{}', 1
			FROM generate_series(1, cardinality($1::text[])) AS n, generate_series(1, $3::int) AS i
			WHERE cardinality($2::bigint[]) > 0`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at)
			SELECT 'msg_0many' || n || '-' || i, 2000000000 + n * 100 + i, 1, ($1::text[])[n], ($1::text[])[n], i,
				'pending', 0, 0, n, 1, 1
			FROM generate_series(1, cardinality($1::text[])) AS n, generate_series(1, $3::int) AS i
			WHERE cardinality($2::bigint[]) > 0`,
		`INSERT INTO webhook_receivers (supplier_id, shard, due_at, updated_at)
			SELECT s, h, $3::bigint, 1 FROM unnest($1::text[], $2::bigint[]) AS r(s, h)`,
	} {
		if _, err := tx.Exec(ctx, statement, ids, shards, each); err != nil {
			return fmt.Errorf("store deliveries: %w", err)
		}
	}
	return tx.Commit(ctx)
}
