package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// A second way to read, for the tracker's listings: a page is up to 100 rows of fifty fields that go out as they
// come in, so fields stay text and no row becomes a struct. It has connections of its own, which can change nothing,
// because views of others run arbitrary SQL of their owners.

const (
	codeQueryCancel  = "57014" // the statement timeout
	connectionsGrace = time.Second
	// A view's row is in memory before anything is known of it. The largest record that a load takes has 16 MiB.
	longestRow = 17 << 20
)

// Rows reads on connections that can change nothing, each statement under a timeout. It gives every field as the
// engine's own text and so serves where rows are passed on, not worked on. PostgreSQL's dates are ISO dates of
// São Paulo, and its plans are made once for all parameters.
type Rows struct {
	db      *DB
	timeout time.Duration

	session *session      // PostgreSQL only
	pool    *pgxpool.Pool // PostgreSQL only; connects when it is used
	fault   error         // why there is no pool
	others  *Rows         // see Others

	turns, views chan struct{} // PostgreSQL only; see turn: of all, and of those that views of others may have
}

// Select runs one statement and calls each for every row. The fields, nil for NULL, are valid during the call only.
type Select func(ctx context.Context, query string, each func(fields [][]byte) error, args ...any) error

// Rows makes a reader; it connects when it is first used. A statement that takes longer than the timeout is
// errs.Unavailable.
func (d *DB) Rows(timeout time.Duration) *Rows {
	r := &Rows{db: d, timeout: timeout}
	if d.engine == SQLite {
		return r
	}
	variable, address, others := "DATABASE_READ_URL", d.server.config.ReadURL, d.server.config.OthersURL
	if address == "" {
		variable, address = "DATABASE_URL", d.server.config.URL
	}
	r.fault = r.open(variable, address, "supplyhub-reader", "off", d.server.readers)
	if others != "" {
		r.others = &Rows{db: d, timeout: timeout}
		r.others.fault = r.others.open("TRACKER_DATABASE_URL", others, "supplyhub-views", "on", d.server.others)
	}
	return r
}

// Close releases the reader's own connections.
func (r *Rows) Close() {
	if r.others != nil {
		r.others.Close()
	}
	if r.pool != nil {
		r.pool.Close()
	}
}

// Select runs one statement on its own.
func (r *Rows) Select(ctx context.Context, query string, each func(fields [][]byte) error, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout+connectionsGrace)
	defer cancel()
	if r.db.engine == SQLite {
		return r.report(selectSQLite(ctx, r.db.readPool, query, each, args))
	}
	if r.fault != nil {
		return r.fault
	}
	if r.carried() {
		end, err := r.turn(ctx, r.turns)
		if err != nil {
			return r.report(err)
		}
		defer end()
		return r.report(selectPostgres(ctx, r.pool, query, each, args))
	}
	return r.report(r.inTx(ctx, func(tx pgx.Tx) error { return selectPostgres(ctx, tx, query, each, args) }))
}

// carried reports whether connections have the reader's settings of themselves; before the first one nothing is known.
func (r *Rows) carried() bool {
	return r.session.decision.Load() != nil && !r.session.pooler()
}

// turn waits for one of the connections that may be used at once, where those are fewer than the pool's: behind a
// pooler, and while the server has none left.
func (r *Rows) turn(ctx context.Context, turns chan struct{}) (end func(), err error) {
	if (r.carried() || r.db.server.limited) && !r.db.server.tight.Load() {
		return func() {}, nil
	}
	select {
	case turns <- struct{}{}:
		return func() { <-turns }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// inTx runs fn in a transaction that can change nothing and has the reader's settings.
func (r *Rows) inTx(ctx context.Context, fn func(pgx.Tx) error) error {
	end, err := r.turn(ctx, r.turns)
	if err != nil {
		return err
	}
	defer end()
	conn, err := r.pool.Acquire(ctx)
	if err != nil {
		return err
	}
	defer func() {
		if s := r.db.server; !s.keeps(r.session, r.pool, max(int(s.few), 1)) {
			_ = conn.Conn().Close(ctx) // it is given up whatever this says
		}
		conn.Release()
	}()
	statement := begin("isolation level read committed read only", r.session.decided().local)
	return pgx.BeginTxFunc(ctx, conn, pgx.TxOptions{BeginQuery: statement}, fn)
}

// report distinguishes a statement that was too slow from one that is wrong.
func (r *Rows) report(err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if ok && pg.Code == codeQueryCancel {
		return errs.NewUnavailable("The database did not answer in time.", retryAfter, err)
	}
	return Translate(err)
}

// open makes the reader's pool, of so many connections, which connects when it is used.
func (r *Rows) open(variable, address, name, bitmaps string, most int32) error {
	s := r.db.server
	cfg, err := parse(variable, address)
	if err != nil {
		return err
	}
	cfg.MaxConns, cfg.ConnConfig.MaxProtocolMessageBodyLen = most, longestRow
	wanted := r.settings(bitmaps)
	for _, w := range wanted {
		delete(cfg.ConnConfig.RuntimeParams, w.name) // an address's own value is for the writers
	}
	r.session = s.configure(cfg, address, slices.Concat(lost, wanted), name)
	cfg.ConnConfig.ValidateConnect = s.hosts.choose(target(cfg.ConnConfig, address, address == s.config.ReadURL))
	if r.pool, err = pgxpool.NewWithConfig(context.Background(), cfg); err != nil {
		return fmt.Errorf("open the reading pool: %w", err)
	}
	r.turns, r.views = make(chan struct{}, max(s.few, 1)), make(chan struct{}, max(s.few-1, 1))
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reads = append(s.reads, r)
	return nil
}

// target returns which of an address's servers the reader takes: its connections are read-only, so read-write finds
// none.
func target(cfg *pgx.ConnConfig, address string, replica bool) pgconn.ValidateConnectFunc {
	switch attrs := parameter(address, "target_session_attrs"); {
	case attrs == "read-write", !replica && (several(cfg) || attrs != ""):
		return pgconn.ValidateConnectTargetSessionAttrsPrimary
	case replica:
		return cfg.ValidateConnect
	default:
		return nil
	}
}

// settings returns what a reader's connections have: nothing can be changed, a statement ends after the timeout, and
// values look as clients get them. Without bitmaps the service's own pages come as their index has them: the planner
// would take a table that was filled a moment ago for a small one, and sort all of a client's records for each page.
func (r *Rows) settings(bitmaps string) []setting {
	return []setting{
		{name: "default_transaction_read_only", value: "on"},
		{name: "statement_timeout", value: shown(r.timeout)},
		{name: "plan_cache_mode", value: "force_generic_plan"},
		{name: "enable_bitmapscan", value: bitmaps},
		{name: "jit", value: "off"}, // compiling a page's plan takes 400 times as long as the page
		{name: "datestyle", value: "ISO, MDY"},
		{name: "timezone", value: "America/Sao_Paulo"},
	}
}

// shown returns a duration as PostgreSQL shows it: the largest unit that divides it.
func shown(d time.Duration) string {
	switch {
	case d%time.Minute == 0:
		return strconv.FormatInt(int64(d/time.Minute), 10) + "min"
	case d%time.Second == 0:
		return strconv.FormatInt(int64(d/time.Second), 10) + "s"
	default:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	}
}

// selectPostgres reads rows as text. The bytes belong to the connection and are overwritten by the next row.
func selectPostgres(ctx context.Context, on interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
}, query string, each func([][]byte) error, args []any,
) error {
	rows, err := on.Query(ctx, query, append([]any{pgx.QueryResultFormats{pgx.TextFormatCode}}, args...)...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
		if err := each(rows.RawValues()); err != nil {
			return err
		}
	}
	err = rows.Err()
	if _, large := errors.AsType[*pgproto3.ExceededMaxBodyLenErr](err); large {
		return &ViewError{Large: true, cause: err}
	}
	return err
}

// selectSQLite reads rows as text, into one set of fields for all of them.
func selectSQLite(ctx context.Context, on interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, query string, each func([][]byte) error, args []any,
) (err error) {
	rows, err := on.QueryContext(ctx, query, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	targets, fields := make([]any, len(columns)), make([][]byte, len(columns))
	for i := range fields {
		targets[i] = (*sql.RawBytes)(&fields[i])
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		if err := each(fields); err != nil {
			return err
		}
	}
	return rows.Err()
}
