package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

const (
	bytesLoad  = 5000 // requests
	bytesLoads = 5    // of a partition
)

// bytesBench prints what a delivered request occupies: young ones, as a burst leaves them, and kept ones, as they are in
// the long run.
func bytesBench(ctx context.Context, s *stack) error {
	fmt.Println(machine())
	if err := s.startNATS(); err != nil {
		return err
	}
	p, err := s.startPipeline(ctx)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, s.database())
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	p.plan.Requests = bytesLoad
	if err := p.startWorker(ctx); err != nil {
		return err
	}
	if err := p.burst(ctx); err != nil {
		return err
	}
	young, err := occupied(ctx, conn, "")
	if err != nil {
		return err
	}
	kept, err := p.kept(ctx, conn)
	if err != nil {
		return err
	}
	fmt.Printf("bytes a request of %d with its event and two deliveries\n", len(body(1)))
	fmt.Printf("  %-20s %8s %8s %8s %8s\n", "", "young", "indexes", "kept", "indexes")
	for i := range young {
		y, k := young[i], kept[i]
		fmt.Printf("  %-20s %8d %8d %8d %8d\n", y.table, y.size/y.requests, y.indexes/y.requests, k.size/k.requests,
			k.indexes/k.requests)
	}
	return nil
}

// kept returns what more requests add in the long run: the room of dead versions is used again, and the partition of
// their events is settled. It is vacuumed after each fifth of that, as autovacuum does.
func (p *pipeline) kept(ctx context.Context, conn *pgx.Conn) (added []occupancy, err error) {
	if err := p.steady(ctx, conn); err != nil {
		return nil, err
	}
	partition, today := "", time.Now().Unix()*1_000_000/microsOfDay
	if err := errors.Join(advance(ctx, conn, today), advance(ctx, conn, today+1)); err != nil {
		return nil, err
	}
	err = conn.QueryRow(ctx, `SELECT '_' || name FROM webhook_partitions WHERE opened_at > 0`).Scan(&partition)
	if err != nil {
		return nil, err
	}
	before, err := occupied(ctx, conn, partition)
	if err != nil {
		return nil, err
	}
	for range bytesLoads {
		if err := errors.Join(p.burst(ctx), vacuum(ctx, conn)); err != nil {
			return nil, err
		}
	}
	if err := errors.Join(advance(ctx, conn, today+2), p.settle(ctx)); err != nil {
		return nil, err
	}
	added, err = occupied(ctx, conn, partition)
	for i, b := range before {
		added[i].requests -= b.requests
		added[i].size -= b.size
		added[i].indexes -= b.indexes
	}
	return added, err
}

// steady runs loads until one uses all the room that those before it left: then each leaves what the next one uses.
func (p *pipeline) steady(ctx context.Context, conn *pgx.Conn) error {
	for before, size := int64(0), int64(0); size == before; {
		err := vacuum(ctx, conn)
		if err == nil {
			before, err = heap(ctx, conn)
		}
		if err == nil {
			err = p.burst(ctx)
		}
		if err == nil {
			size, err = heap(ctx, conn)
		}
		if err != nil {
			return err
		}
	}
	return vacuum(ctx, conn)
}

func heap(ctx context.Context, conn *pgx.Conn) (size int64, err error) {
	err = conn.QueryRow(ctx, `SELECT pg_relation_size('material_requests')`).Scan(&size)
	return size, err
}

// burst posts as fast as answers come, until there are so many requests.
func (p *pipeline) burst(ctx context.Context) error {
	_, err := p.run(ctx, time.Minute, 0)
	return err
}

func vacuum(ctx context.Context, conn *pgx.Conn) error {
	_, err := conn.Exec(ctx, `VACUUM`)
	return err
}

// occupancy is how many bytes requests have of a table with its indexes, and of these alone.
type occupancy struct {
	table                   string
	requests, size, indexes int64
}

// occupied returns it of each table, or of its partition with the suffix, and of all.
func occupied(ctx context.Context, conn *pgx.Conn, partition string) ([]occupancy, error) {
	rows, err := conn.Query(ctx, `SELECT coalesce(kind, 'all'), (SELECT count(*) FROM material_requests),
			sum(pg_total_relation_size(relid))::bigint, sum(pg_indexes_size(relid))::bigint
		FROM (VALUES ('material_requests', ''), ('webhook_events', $1), ('webhook_deliveries', $1), ('webhook_attempts', $1))
				AS tables(kind, partition),
			LATERAL (SELECT relid FROM pg_partition_tree((kind || partition)::regclass)
				UNION SELECT (kind || partition)::regclass) AS parts(relid)
		GROUP BY ROLLUP (kind) ORDER BY kind`, partition)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, func(row pgx.CollectableRow) (o occupancy, err error) {
		return o, row.Scan(&o.table, &o.requests, &o.size, &o.indexes)
	})
}
