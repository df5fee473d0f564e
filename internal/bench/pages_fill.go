package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	pageSuppliers = 10_000
	pageBig       = 10      // suppliers that half of the requests belong to
	pageChunk     = 250_000 // requests stored by one statement: triggers see all its rows at once
	pageWaiting   = 20_000  // newest requests that wait for their estimates
	pageStep      = 3 * time.Second
)

// pageStart is when the first request was made; the last one of ten million is a year younger.
var pageStart = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

func midRequest() int64 {
	n, err := strconv.ParseInt(os.Getenv(pagesStored), 10, 64)
	if err != nil {
		n = storedRequests
	}
	return n / 2
}

func pageSupplier(n int64) string { return fmt.Sprintf("sup_%012d", n) }

// pageOwner returns the supplier of a request: half of them are a few suppliers'.
func pageOwner(uid int64) string {
	if uid%2 == 0 {
		return pageSupplier(uid / 2 % pageBig)
	}
	return pageSupplier(uid / 2 % pageSuppliers)
}

func pageAt(uid int64) int64 { return pageStart.Add(time.Duration(uid) * pageStep).UnixMicro() }

func pageDelivery(uid int64, own bool) string { return deliveryID(uid, pageAt(uid), own) }

// deliveryID returns the webhook-id of an event whose nonce is its uid.
func deliveryID(uid, at int64, own bool) string {
	kind := round.Receiver
	if own {
		kind = round.OwnEndpoint
	}
	return round.Event{UID: uid, At: at, Nonce: uid}.WebhookID(kind)
}

// pageIndex is an index that is dropped while its table is filled.
type pageIndex struct {
	table, name, definition string
	primary                 bool
}

// fillPages stores what a year of 10,000 suppliers leaves: some failed, some waiting, receivers of which some are ill.
func (s *stack) fillPages(ctx context.Context, stored int64) error {
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	if err := fillSuppliers(ctx, conn); err != nil {
		return fmt.Errorf("suppliers: %w", err)
	}
	indexes, err := dropIndexes(ctx, conn)
	if err != nil {
		return fmt.Errorf("drop indexes: %w", err)
	}
	for from := int64(1); from <= stored; from += pageChunk {
		if err := fillChunk(ctx, conn, from, min(from+pageChunk-1, stored), stored); err != nil {
			return err
		}
		if from%(8*pageChunk) == 1 {
			fmt.Fprintf(os.Stderr, "%d of %d requests stored\n", from-1, stored)
		}
	}
	fmt.Fprintln(os.Stderr, "all stored; the indexes are made")
	if err := makeIndexes(ctx, conn, indexes); err != nil {
		return err
	}
	for _, statement := range []string{
		fmt.Sprintf(`SELECT setval('request_numbers', %d)`, stored+1), `VACUUM ANALYZE`, `CHECKPOINT`,
	} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%s: %w", statement, err)
		}
	}
	return nil
}

func fillSuppliers(ctx context.Context, conn *pgx.Conn) error {
	at := pageStart.UnixMicro()
	for _, statement := range []string{
		`INSERT INTO suppliers (id, name, webhook_url, access_ttl, refresh_ttl, scopes, active, created_at, updated_at)
			SELECT 'sup_' || lpad(n::text, 12, '0'), 'Supplier ' || n, 'https://receiver-' || n || '.example/hook', access_ttl,
				refresh_ttl, scopes, true, $1::bigint + n, $1
			FROM suppliers, generate_series(0, $2 - 1) AS n WHERE name = 'bench'`,
		`INSERT INTO webhook_receivers (supplier_id, shard, consecutive_failures, failing_since, last_success_at, last_error,
			paused_by, updated_at)
			SELECT 'sup_' || lpad(n::text, 12, '0'), n % 256, CASE n % 100 WHEN 0 THEN 9 ELSE 0 END,
				CASE n % 100 WHEN 0 THEN $1::bigint END, $1, CASE n % 100 WHEN 0 THEN 'connection refused' ELSE '' END,
				CASE n % 100 WHEN 1 THEN 'operator' ELSE '' END, $1::bigint
			FROM generate_series(0, $2 - 1) AS n`,
	} {
		if _, err := conn.Exec(ctx, statement, at, int64(pageSuppliers)); err != nil {
			return err
		}
	}
	return nil
}

func dropIndexes(ctx context.Context, conn *pgx.Conn) ([]pageIndex, error) {
	rows, err := conn.Query(ctx, `SELECT c.relname, x.relname, i.indisprimary,
			CASE WHEN i.indisprimary THEN 'ALTER TABLE ' || c.relname || ' ADD CONSTRAINT ' || x.relname || ' '
				|| pg_get_constraintdef(k.oid) || coalesce(' WITH (' || array_to_string(x.reloptions, ', ') || ')', '')
			ELSE replace(pg_get_indexdef(i.indexrelid), ' ON ONLY ', ' ON ') END -- of all partitions
		FROM pg_index i JOIN pg_class c ON c.oid = i.indrelid JOIN pg_class x ON x.oid = i.indexrelid
		LEFT JOIN pg_constraint k ON k.conindid = x.oid AND k.contype = 'p'
		WHERE c.relname IN ('material_requests', 'webhook_events', 'webhook_deliveries')
		AND c.relnamespace = current_schema()::regnamespace`)
	if err != nil {
		return nil, err
	}
	indexes, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (i pageIndex, err error) {
		return i, row.Scan(&i.table, &i.name, &i.primary, &i.definition)
	})
	for _, i := range indexes {
		statement := `DROP INDEX ` + i.name
		if i.primary {
			statement = `ALTER TABLE ` + i.table + ` DROP CONSTRAINT ` + i.name
		}
		if err == nil {
			_, err = conn.Exec(ctx, statement)
		}
	}
	return indexes, err
}

func makeIndexes(ctx context.Context, conn *pgx.Conn, indexes []pageIndex) (err error) {
	_, err = conn.Exec(ctx, `SET maintenance_work_mem = '512MB'`)
	for _, i := range indexes {
		if err == nil {
			_, err = conn.Exec(ctx, i.definition)
		}
	}
	return err
}

// fillChunk stores the requests of these numbers with their events and deliveries.
func fillChunk(ctx context.Context, conn *pgx.Conn, from, to, stored int64) error {
	waiting := func(uid int64) bool { return uid > stored-pageWaiting }
	_, errRequests := conn.CopyFrom(ctx, pgx.Identifier{"material_requests"},
		[]string{"supplier_id", "id", "status", "digest", "shop_code", "body",
			"trace_id", "uid", "ticket", "received", "failure", "created_at", "updated_at", "estimates", "unavailable"},
		pgx.CopyFromSlice(int(to-from+1), func(i int) ([]any, error) {
			uid := from + int64(i)
			at := pageStart.Add(time.Duration(uid) * pageStep).UnixMicro()
			status, failure, received, ticket := "estimated", "", int64(1), (*int64)(nil)
			switch {
			case waiting(uid):
				status, received, ticket = "enqueued", 0, &uid
			case failedPage(uid):
				status, failure, received = "failed", "The delivery estimates were computed and could not be delivered.", 0
			}
			return []any{pageOwner(uid), uid, status, digestOf(uid), "SP-0001", []byte(`{"shop_code":"SP-0001","materials":[]}`),
				traceOf(uid), uid, ticket,
				received, failure, at, at, "[]", "[]"}, nil
		}))
	_, errEvents := conn.CopyFrom(ctx, pgx.Identifier{"webhook_events"},
		[]string{"uid", "round", "nonce", "trace_id", "body", "created_at", "supplier_id"},
		pgx.CopyFromSlice(int(to-from+1), func(i int) ([]any, error) {
			uid := from + int64(i)
			return []any{uid, int64(1), uid, traceOf(uid), []byte(`{}`), pageAt(uid), pageOwner(uid)}, nil
		}))
	deliveries := &pageDeliveries{next: from, to: to, waiting: waiting}
	_, errDeliveries := conn.CopyFrom(ctx, pgx.Identifier{"webhook_deliveries"},
		[]string{"id", "uid", "round", "destination", "supplier_id",
			"request_id", "status", "attempts", "series", "next_attempt_at", "created_at", "updated_at", "last_started_at",
			"last_duration_us", "last_status", "last_error"}, deliveries)
	return errors.Join(errRequests, errEvents, errDeliveries)
}

func failedPage(uid int64) bool { return uid%100 == 7 }

func traceOf(uid int64) string { return "trace-" + strconv.FormatInt(uid, 10) }

func digestOf(uid int64) []byte { return fmt.Appendf(make([]byte, 0, 32), "%032d", uid) }

// pageDeliveries are those to the own endpoint and, of every fourth request, one to the supplier's receiver.
type pageDeliveries struct {
	next, to int64
	supplier bool // the next one goes to the supplier
	waiting  func(uid int64) bool
	row      []any
}

// Next reports whether there is another row, as pgx.CopyFromSource has it.
func (d *pageDeliveries) Next() bool {
	for d.next <= d.to && d.waiting(d.next) {
		d.next++
	}
	if d.next > d.to {
		return false
	}
	uid, destination, status, answered, reason := d.next, "own", "delivered", int64(200), ""
	switch {
	case d.supplier:
		destination = pageOwner(uid)
		switch uid / 8 % 50 {
		case 0:
			status, answered, reason = "dead", 503, "answered 503"
		case 1:
			status, answered, reason = "failed", 410, "answered 410"
		case 2:
			status, answered, reason = "pending", 503, "answered 503"
		}
	case failedPage(uid):
		status, answered, reason = "dead", 503, "answered 503"
	}
	at := pageAt(uid)
	due := time.Now().Add(24*time.Hour).UnixMicro() + uid // no sweeper wants it while the pages are read
	d.row = []any{pageDelivery(uid, !d.supplier), uid, int64(1), destination, pageOwner(uid), uid, status, int64(1),
		int64(1), due, at, at, at,
		int64(1000), answered, reason, true}
	if d.supplier = !d.supplier && uid%8 < 2; !d.supplier {
		d.next++
	}
	return true
}

// Values implements pgx.CopyFromSource.
func (d *pageDeliveries) Values() ([]any, error) { return d.row, nil }

// Err implements pgx.CopyFromSource.
func (d *pageDeliveries) Err() error { return nil }
