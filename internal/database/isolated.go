package database

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A view runs the code of who made it, with the rights of who reads it and in the reader's session; the planner alone
// runs some of it. So a view that is not the service's own is read in a transaction that is rolled back, which takes
// its settings back, in a session that ends with it, and by a login that has nothing else. Errors of that code carry
// any SQLSTATE that it likes: they say nothing about the server.

// ViewError is the fault of the view that was read, or of what is below it: not the engine's.
type ViewError struct {
	Denied bool // the login may not read the view
	Slow   bool // it takes longer than a statement may
	Large  bool // a row of it is larger than a row may be
	cause  error
}

// Error returns what the engine said.
func (v *ViewError) Error() string {
	switch {
	case v.Slow:
		return "it takes longer than a read may"
	case v.Large:
		return fmt.Sprintf("a row of it is too large: it has more than %d MiB", longestRow>>20)
	default:
		return v.cause.Error()
	}
}

// Unwrap returns the engine's error.
func (v *ViewError) Unwrap() error { return v.cause }

const (
	codeDenied  = "42501"
	timesSorted = 2 // SQLite has a row as what it is sorted by, too
	// In one message, so that no pooler gives the session to others in between: locks and prepared statements outlive a
	// rollback.
	leaveSession = "rollback; select pg_advisory_unlock_all(); deallocate all"
)

// Others returns the reader of views that other roles own: by the login of OthersURL where there is one, else by the
// reader's own. Only Isolated may be used.
func (r *Rows) Others() *Rows {
	return cmp.Or(r.others, r)
}

// OthersApart reports whether views of others are read by a login of their own; SQLite has no logins.
func (d *DB) OthersApart() bool { return d.engine == SQLite || d.server.config.OthersURL != "" }

// ReadersAtOnce returns how many reads are made at once. SQLite's are this process's own work: more of them than there
// are processors only wait for each other.
func (d *DB) ReadersAtOnce() int {
	if d.engine == SQLite {
		return min(sqliteReaders, runtime.GOMAXPROCS(0))
	}
	return int(d.server.readers)
}

// OthersAtOnce returns how many connections read views of others, a quarter of those that read.
func (d *DB) OthersAtOnce() int {
	if d.engine == SQLite {
		return sqliteOthers
	}
	return int(d.server.others)
}

// isolatedKey marks a connection on which a view's code has run.
const isolatedKey = "isolated"

// isolated reports whether errors on the connection may be made up by a view's code.
func isolated(conn *pgconn.PgConn) bool { return conn.CustomData()[isolatedKey] != nil }

// Isolated lets fn run statements that see one state of the database, can change nothing, and leave nothing behind.
// Errors that are the view's are a ViewError.
func (r *Rows) Isolated(ctx context.Context, fn func(Select) error) error {
	if r.db.engine == SQLite {
		return r.isolatedSQLite(ctx, fn)
	}
	if r.fault != nil {
		return r.fault
	}
	waiting, cancel := context.WithTimeout(ctx, r.timeout+connectionsGrace)
	defer cancel()
	for _, turns := range []chan struct{}{r.views, r.turns} { // one turn always stays for pages of the service's own
		end, err := r.turn(waiting, turns)
		if err != nil {
			return Translate(err)
		}
		defer end()
	}
	conn, err := r.pool.Acquire(waiting)
	if err != nil {
		return Translate(err)
	}
	defer conn.Release()
	defer r.leave(ctx, conn.Conn())
	conn.Conn().PgConn().CustomData()[isolatedKey] = true
	local := slices.Concat(r.session.decided().local, r.settings("on"))
	if _, err := conn.Exec(waiting, begin("isolation level repeatable read read only", local)); err != nil {
		return Translate(err)
	}
	waits(conn.Conn().PgConn(), true) // a view's code may be silent for as long as it may take
	return fn(func(ctx context.Context, query string, each func([][]byte) error, args ...any) error {
		statement, cancel := context.WithTimeout(ctx, r.timeout+connectionsGrace)
		defer cancel()
		// Planned each time: a view that was made again has other types.
		args = append([]any{pgx.QueryExecModeExec}, args...)
		return viewError(ctx, selectPostgres(statement, conn, query, each, args))
	})
}

// leave ends what a view's code may have left in the session, and the session.
func (r *Rows) leave(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWait)
	defer cancel()
	_, _ = conn.PgConn().Exec(ctx, leaveSession).ReadAll() // the connection is closed whatever comes of it
	_ = conn.Close(ctx)
}

// viewError finds out whose fault an error is; ctx is the caller's, without the statement's limit.
func viewError(ctx context.Context, err error) error {
	if err == nil || ctx.Err() != nil {
		return Translate(err)
	}
	pg, answered := errors.AsType[*pgconn.PgError](err)
	lite, isLite := errors.AsType[liteError](err)
	_, found := errors.AsType[*ViewError](err)
	switch {
	case found:
		return err
	case answered && strings.EqualFold(pg.Severity, "FATAL"):
		return Translate(err)
	case answered:
		return &ViewError{Denied: pg.Code == codeDenied, Slow: pg.Code == codeQueryCancel, cause: err}
	case errors.Is(err, context.DeadlineExceeded):
		return &ViewError{Slow: true, cause: err}
	case isLite && faultOf(err) == ofStatement:
		return &ViewError{Large: lite.Code()&litePrimary == liteTooBig, cause: err}
	default:
		return Translate(err)
	}
}

// isolatedSQLite is Isolated on SQLite, on connections of its own. The driver ends a statement with its context only
// until the first row is there, so the rows are all made before it.
func (r *Rows) isolatedSQLite(ctx context.Context, fn func(Select) error) error {
	waiting, cancel := context.WithTimeout(ctx, r.timeout+connectionsGrace)
	defer cancel()
	conn, err := r.db.othersPool.Conn(waiting)
	if err != nil {
		return Translate(err)
	}
	defer conn.Close()
	if err := embedded.Load().bound(conn, timesSorted*longestRow); err != nil {
		return Translate(err)
	}
	tx, err := conn.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return Translate(err)
	}
	defer func() { _ = tx.Rollback() }() // nothing was changed
	return fn(func(ctx context.Context, query string, each func([][]byte) error, args ...any) error {
		statement, cancel := context.WithTimeout(ctx, r.timeout)
		defer cancel()
		// A name that no view can have: SQLite keeps this prefix for itself.
		whole := "WITH sqlite_whole AS MATERIALIZED (" + query + ") SELECT * FROM sqlite_whole"
		return viewError(ctx, selectSQLite(statement, tx, whole, each, args))
	})
}

// ReaderLogin returns the role that reads views: those of others, or the service's own.
func (d *DB) ReaderLogin(others bool) string {
	address := d.server.config.URL
	if others && d.server.config.OthersURL != "" {
		address = d.server.config.OthersURL
	}
	cfg, err := parse("", address)
	if err != nil {
		return "supplyhub_api"
	}
	return cfg.ConnConfig.User
}
