package main

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// bytesBench prints what a delivered request occupies, estimates stored once and as the version before stores them.
func bytesBench(ctx context.Context) error {
	fmt.Println(machine())
	for _, once := range []bool{false, true} {
		if err := onStack(ctx, func(ctx context.Context, s *stack) error { return s.bytes(ctx, once) }); err != nil {
			return err
		}
	}
	return nil
}

func (s *stack) bytes(ctx context.Context, once bool) error {
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
	if !once { // the api has not looked yet
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
	rows, err := conn.Query(ctx, `SELECT relname, pg_total_relation_size(oid) / n, pg_indexes_size(oid) / n
		FROM pg_class, (SELECT count(*) AS n FROM material_requests) AS requests
		WHERE oid IN ('material_requests'::regclass, 'webhook_events'::regclass, 'webhook_deliveries'::regclass)
		ORDER BY 2 DESC`)
	if err != nil {
		return err
	}
	var name string
	var size, index, total int64
	fmt.Printf("bytes a request of %d with its event and two deliveries, estimates once: %t\n", len(body(1)), once)
	_, err = pgx.ForEachRow(rows, []any{&name, &size, &index}, func() error {
		fmt.Printf("  %-20s %6d   indexes %d\n", name, size, index)
		total += size
		return nil
	})
	fmt.Printf("  %-20s %6d\n", "all", total)
	return err
}
