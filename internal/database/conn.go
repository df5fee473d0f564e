package database

import (
	"context"
	"database/sql/driver"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
)

// connector hands out the pool's connections as conn.
type connector struct {
	driver.Connector
	session *session
	keeps   func() bool // a connection that is given back
}

// Connect takes a connection from the pool.
func (c connector) Connect(ctx context.Context) (driver.Conn, error) {
	taken, err := c.Connector.Connect(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{Conn: taken.(*stdlib.Conn), session: c.session, keeps: c.keeps},
		nil //nolint:forcetypeassert // the pool's connector makes no other
}

// conn is a pool's connection whose transactions state their isolation level and, behind a pooler, their settings.
type conn struct {
	*stdlib.Conn
	session *session
	keeps   func() bool
	inTx    bool
}

// Close releases the connection to the pool, or ends it. The pool's own hook for that releases it too late: the next
// caller got a second connection.
func (c *conn) Close() error {
	if !c.keeps() {
		ctx, cancel := context.WithTimeout(context.Background(), pingWait)
		defer cancel()
		_ = c.Conn.Conn().Close(ctx) // it is given up whatever this says
	}
	return c.Conn.Close()
}

// BeginTx begins at read committed, whatever the role's default, unless opts say otherwise.
func (c *conn) BeginTx(ctx context.Context, opts driver.TxOptions) (driver.Tx, error) {
	if c.Conn.Conn().IsClosed() {
		return nil, driver.ErrBadConn
	}
	if opts.Isolation != 0 || opts.ReadOnly {
		return nil, errors.New("begin: only read committed transactions that may write are begun here")
	}
	var local []setting
	if d := c.session.decision.Load(); d != nil {
		local = d.local
	}
	if ctx.Value(maintenanceKey{}) != nil {
		local = append(local[:len(local):len(local)], maintenance...)
	}
	tx, err := c.Conn.Conn().BeginTx(ctx,
		pgx.TxOptions{BeginQuery: begin("isolation level read committed", local), CommitQuery: commitOf(ctx)})
	if err != nil {
		return nil, err
	}
	c.inTx = true
	return transaction{ctx, tx, c}, nil
}

type transaction struct {
	ctx  context.Context //nolint:containedctx // driver.Tx's methods take none
	tx   pgx.Tx
	conn *conn
}

// Commit commits.
func (t transaction) Commit() error {
	t.conn.inTx = false
	return t.tx.Commit(t.ctx)
}

// Rollback rolls back.
func (t transaction) Rollback() error {
	t.conn.inTx = false
	return t.tx.Rollback(t.ctx)
}

// alone reports whether a statement needs a transaction of its own to run under the right settings. Those that work
// on an index while others write run in none.
func (c *conn) alone(query string) bool {
	d := c.session.decision.Load()
	return !c.inTx && d != nil && d.alone && !strings.Contains(query, " INDEX CONCURRENTLY ")
}

// ExecContext runs a statement.
func (c *conn) ExecContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	if !c.alone(query) {
		return c.Conn.ExecContext(ctx, query, args)
	}
	tx, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return nil, err
	}
	result, err := c.Conn.ExecContext(ctx, query, args)
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return result, tx.Commit()
}

// QueryContext runs a statement that returns rows.
func (c *conn) QueryContext(ctx context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	if !c.alone(query) {
		return c.Conn.QueryContext(ctx, query, args)
	}
	tx, err := c.BeginTx(ctx, driver.TxOptions{})
	if err != nil {
		return nil, err
	}
	found, err := c.Conn.QueryContext(ctx, query, args)
	if err != nil {
		return nil, errors.Join(err, tx.Rollback())
	}
	return rows{found.(*stdlib.Rows), tx}, nil //nolint:forcetypeassert // stdlib makes no other
}

// rows ends its transaction when it is closed.
type rows struct {
	*stdlib.Rows
	tx driver.Tx
}

// Close commits; a statement that failed has made its transaction fail, so that nothing is.
func (r rows) Close() error { return errors.Join(r.Rows.Close(), r.tx.Commit()) }
