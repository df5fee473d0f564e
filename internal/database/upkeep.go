package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

// upkeepSettings are of a connection whose statements may take long: vacuum is as slow as autovacuum, which leaves the
// disk to others, and an index is made by one process.
const upkeepSettings = `SET statement_timeout = 0; SET vacuum_cost_delay = '2ms';
	SET max_parallel_maintenance_workers = 0`

// Upkeep hands fn a connection for statements that run in no transaction, such as VACUUM, for as long as they take. It
// reports false, without calling fn, where there is none: on SQLite and behind a pooler, whose connections are shared.
func (d *DB) Upkeep(ctx context.Context, fn func(conn *sql.Conn) error) (done bool, err error) {
	if d.engine != Postgres {
		return false, nil
	}
	conn, err := d.pool.Conn(ctx) // the first one finds a pooler
	if err != nil {
		return false, Translate(err)
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	if d.server.session.pooler() {
		return false, nil
	}
	if _, err := conn.ExecContext(ctx, upkeepSettings); err != nil {
		return false, fmt.Errorf("prepare a connection for upkeep: %w", Translate(err))
	}
	defer func() {
		_, reset := conn.ExecContext(context.WithoutCancel(ctx), `RESET ALL`)
		err = errors.Join(err, Translate(reset))
	}()
	return true, fn(conn)
}
