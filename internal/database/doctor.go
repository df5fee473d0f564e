package database

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Examination is what an operator wants to know of a database that answers.
type Examination struct {
	Version    string        // of the server
	Pooler     bool          // PostgreSQL: a connection pooler is in between
	ClockAhead time.Duration // this machine's clock before the database's
	Left       int           // PostgreSQL: connections that this role may still open; -1: it is not known
	Schema     error         // ErrSchema, or nil
	Plain      bool          // PostgreSQL: the connection leaves this machine, and not by TLS
}

// versionAndLeft has the server's version, and what is left of the tightest of the server's, the database's and the
// role's limits. Rows of other roles show little more than that they are there, which is enough.
const versionAndLeft = `
	SELECT current_setting('server_version'), least(
		current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int
			- coalesce(current_setting('reserved_connections', true)::int, 0)
			- (SELECT count(*) FROM pg_stat_activity WHERE datid IS NOT NULL),
		(SELECT CASE WHEN datconnlimit >= 0
				THEN datconnlimit - (SELECT count(*) FROM pg_stat_activity a WHERE a.datid = d.oid) END
			FROM pg_database d WHERE datname = current_database()),
		(SELECT CASE WHEN rolconnlimit >= 0
				THEN rolconnlimit - (SELECT count(*) FROM pg_stat_activity a WHERE a.usename = r.rolname) END
			FROM pg_roles r WHERE rolname = current_user))`

// Examine asks the database for all that, and changes nothing.
func (d *DB) Examine(ctx context.Context) (e Examination, err error) {
	if err := d.Ping(ctx); err != nil {
		return e, err
	}
	if d.engine == Postgres {
		err = e.examinePostgres(ctx, d)
	} else {
		e.Left = -1
		err = d.pool.QueryRowContext(ctx, `SELECT sqlite_version()`).Scan(&e.Version)
	}
	if err != nil {
		return e, fmt.Errorf("examine database: %w", Translate(err))
	}
	if e.Schema = d.CheckSchema(ctx); e.Schema != nil && !errors.Is(e.Schema, ErrSchema) {
		return e, e.Schema
	}
	return e, nil
}

// examinePostgres asks PostgreSQL.
func (e *Examination) examinePostgres(ctx context.Context, d *DB) (err error) {
	if err = d.pool.QueryRowContext(ctx, versionAndLeft).Scan(&e.Version, &e.Left); err != nil {
		return err
	}
	e.ClockAhead, e.Pooler = time.Since(d.Now()), d.server.session.pooler()
	e.Plain, err = unencrypted(ctx, d.server.write)
	return err
}

// unencrypted reports whether a connection of the pool leaves this machine, and not by TLS. It looks at this end:
// behind a pooler the server's knows only the pooler's.
func unencrypted(ctx context.Context, pool *pgxpool.Pool) (plain bool, err error) {
	taken, err := pool.Acquire(ctx)
	if err != nil {
		return false, Translate(err)
	}
	defer taken.Release()
	wire := taken.Conn().PgConn().Conn()
	_, encrypted := wire.(*tls.Conn)
	at, ok := wire.RemoteAddr().(*net.TCPAddr)
	return !encrypted && ok && !at.IP.IsLoopback(), nil
}

// ExamineReplica connects as a reader does, to what DATABASE_READ_URL names. It reports what unencrypted does.
func (d *DB) ExamineReplica(ctx context.Context) (plain bool, err error) {
	r := d.Rows(connectWait)
	defer r.Close()
	if r.fault != nil {
		return false, r.fault
	}
	return unencrypted(ctx, r.pool)
}

// Connections returns how many connections a process of this configuration takes.
func (d *DB) Connections() int { return int(d.server.write.Config().MaxConns + d.server.readers) }

// Lacking returns which of the privileges on the tables, one on each, this role does not have; a right on some columns
// counts. It is for PostgreSQL.
func (d *DB) Lacking(ctx context.Context, tables, privileges []string) ([]string, error) {
	lacking, err := Column[string](ctx, Pool{d.pool, d}, `
		SELECT p || ' ON ' || t FROM unnest($1::text[], $2::text[]) AS wanted(t, p)
		WHERE to_regclass(t) IS NULL OR NOT CASE p
			WHEN 'DELETE' THEN has_table_privilege(to_regclass(t), p)
			WHEN 'USAGE' THEN has_sequence_privilege(to_regclass(t), p)
			ELSE has_any_column_privilege(to_regclass(t), p) END`, tables, privileges)
	return lacking, errs.Doing("read rights", err)
}
