package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/jackc/pgx/v5/stdlib"

	"github.com/supplyhub/supplyhub/internal/errs"
)

const (
	rowsConnections  = 8
	codeQueryCancel  = "57014" // the statement timeout
	connectionsGrace = time.Second
)

// Rows reads on connections that can change nothing, each statement under a timeout. It gives every field as the
// engine's own text and so serves where rows are passed on, not worked on. PostgreSQL's dates are ISO dates of
// São Paulo, and its plans are made once for all parameters.
type Rows struct {
	db      *DB
	timeout time.Duration

	mu   sync.Mutex
	pool *pgxpool.Pool // PostgreSQL only, made by the first read
}

// Select runs one statement and calls each for every row. The fields, nil for NULL, are valid during the call only.
type Select func(ctx context.Context, query string, each func(fields [][]byte) error, args ...any) error

// Rows makes a reader; it connects when it is first used. A statement that takes longer than the timeout is errs.Unavailable.
func (d *DB) Rows(timeout time.Duration) *Rows { return &Rows{db: d, timeout: timeout} }

// Close releases the reader's own connections.
func (r *Rows) Close() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool != nil {
		r.pool.Close()
		r.pool = nil
	}
}

// Select is one statement on its own.
func (r *Rows) Select(ctx context.Context, query string, each func(fields [][]byte) error, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout+connectionsGrace)
	defer cancel()
	if r.db.engine == SQLite {
		reader, err := r.db.read.DB()
		if err != nil {
			return err
		}
		return r.report(selectSQLite(ctx, reader, query, each, args))
	}
	pool, err := r.connect(ctx)
	if err != nil {
		return r.report(err)
	}
	return r.report(selectPostgres(ctx, pool, query, each, args))
}

// Together lets fn run several statements that all see the same state of the database.
func (r *Rows) Together(ctx context.Context, fn func(Select) error) error {
	if r.db.engine == SQLite {
		return r.togetherSQLite(ctx, fn)
	}
	pool, err := r.connect(ctx)
	if err != nil {
		return r.report(err)
	}
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	return r.report(pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error {
		return fn(func(ctx context.Context, query string, each func([][]byte) error, args ...any) error {
			return selectPostgres(ctx, tx, query, each, args)
		})
	}))
}

func (r *Rows) togetherSQLite(ctx context.Context, fn func(Select) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.timeout+connectionsGrace)
	defer cancel()
	reader, err := r.db.read.DB()
	if err != nil {
		return err
	}
	tx, err := reader.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return r.report(err)
	}
	err = fn(func(ctx context.Context, query string, each func([][]byte) error, args ...any) error {
		ctx, cancel := context.WithTimeout(ctx, r.timeout)
		defer cancel()
		return selectSQLite(ctx, tx, query, each, args)
	})
	if done := tx.Rollback(); done != nil && !errors.Is(done, sql.ErrTxDone) {
		err = errors.Join(err, done)
	}
	return r.report(err)
}

// report tells a statement that was too slow from one that is wrong.
func (r *Rows) report(err error) error {
	pg, ok := errors.AsType[*pgconn.PgError](err)
	if ok && pg.Code == codeQueryCancel {
		return errs.Away("The database did not answer in time.", retryAfter, err)
	}
	return Translate(err)
}

// connect opens the pool with the address that the database was opened with.
func (r *Rows) connect(ctx context.Context) (*pgxpool.Pool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.pool != nil {
		return r.pool, nil
	}
	conn, err := r.db.pool.Conn(ctx)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	var address string
	if err := conn.Raw(func(driver any) error {
		address = driver.(*stdlib.Conn).Conn().Config().ConnString() //nolint:forcetypeassert // postgres.go opens no other driver
		return nil
	}); err != nil {
		return nil, err
	}
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, errors.New("open the reading pool: the address is not valid any longer") // pgx's text may quote it
	}
	cfg.MaxConns = rowsConnections
	cfg.ConnConfig.ConnectTimeout = 5 * time.Second
	for name, value := range map[string]string{
		"default_transaction_read_only": "on",
		"statement_timeout":             strconv.FormatInt(r.timeout.Milliseconds(), 10),
		"plan_cache_mode":               "force_generic_plan",
		"jit":                           "off", // compiling a page's plan takes 400 times as long as the page
		"datestyle":                     "ISO",
		"timezone":                      "America/Sao_Paulo",
	} {
		cfg.ConnConfig.RuntimeParams[name] = value
	}
	setDefault(cfg.ConnConfig.RuntimeParams, "application_name", "supplyhub-reader")
	r.pool, err = pgxpool.NewWithConfig(context.WithoutCancel(ctx), cfg)
	if err != nil {
		return nil, fmt.Errorf("open the reading pool: %w", err)
	}
	return r.pool, nil
}

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
	return rows.Err()
}

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
	raw, targets, fields := make([]sql.RawBytes, len(columns)), make([]any, len(columns)), make([][]byte, len(columns))
	for i := range raw {
		targets[i] = &raw[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		for i := range raw {
			fields[i] = raw[i]
		}
		if err := each(fields); err != nil {
			return err
		}
	}
	return rows.Err()
}
