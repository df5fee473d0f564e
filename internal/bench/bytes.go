package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/jackc/pgx/v5"
)

// form is how rows are stored.
type form struct {
	name         string
	once, packed bool
}

// bytesBench prints what a delivered request occupies, in each form.
func bytesBench(ctx context.Context) error {
	fmt.Println(machine())
	for _, f := range []form{{"estimates twice", false, false}, {"estimates once", true, false}, {"packed", true, true}} {
		if err := onStack(ctx, func(ctx context.Context, s *stack) error { return s.bytes(ctx, f) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) bytes(ctx context.Context, f form) error {
	s.env = append(s.env, "STORE_PACKED="+strconv.FormatBool(f.packed))
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
	if !f.once { // the api has not looked yet
		if _, err := conn.Exec(ctx, `DELETE FROM settings WHERE key = 'lean_rows'`); err != nil {
			return err
		}
	}
	if err := p.startWorker(ctx); err != nil {
		return err
	}
	if _, err := p.run(ctx, loadDuration, 0); err != nil {
		return err
	}
	rows, err := conn.Query(ctx, `SELECT name, sum(pg_total_relation_size(relid))::bigint / n,
			sum(pg_indexes_size(relid))::bigint / n
		FROM (SELECT count(*) AS n FROM material_requests) AS requests,
			unnest(ARRAY['material_requests', 'webhook_events', 'webhook_deliveries']) AS name,
			LATERAL (SELECT relid FROM pg_partition_tree(name::regclass) UNION SELECT name::regclass) AS parts(relid)
		GROUP BY name, n ORDER BY 2 DESC`)
	if err != nil {
		return err
	}
	var name string
	var size, index, total int64
	fmt.Printf("bytes a request of %d with its event and two deliveries, %s\n", len(body(1)), f.name)
	_, err = pgx.ForEachRow(rows, []any{&name, &size, &index}, func() error {
		fmt.Printf("  %-20s %6d   indexes %d\n", name, size, index)
		total += size
		return nil
	})
	fmt.Printf("  %-20s %6d\n", "all", total)
	return err
}
