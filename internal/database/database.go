// Package database opens either engine, migrates it and carries a transaction in the context.
// Only files named store*.go ask it for a connection. It knows no feature.
package database

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"

	"gorm.io/gorm"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Config says where the database is and what it is opened for.
type Config struct {
	URL       string // postgres:// or postgresql://; empty: the SQLite file at Path
	ReadURL   string // where Rows reads, a replica; empty: URL
	OthersURL string // for views that other roles own, which Rows reads; empty: as for all else
	Path      string
	Profile   Profile
	NoReaders bool // Rows is not used: all connections are for From and SQL
	Log       *slog.Logger
}

// DB is one open database. All times in it are Unix microseconds in UTC, on both engines.
//
// It is divided by what it does: Dialect is the engine's SQL, Clock its time; migrate.go brings the schema up to date,
// sqlite.go looks after SQLite's file, rows.go reads without gorm, tx.go begins transactions. Here statements get a
// connection (From, SQL). Everything but refusals is set by Open and only read then.
type DB struct {
	Dialect
	*Clock

	write  *gorm.DB
	read   *gorm.DB
	pool   *sql.DB // the writing pool, for migrations and pings
	server *server // PostgreSQL only
	lock   string  // SQLite: the file that serialises migrations between processes

	readPool, othersPool *sql.DB // SQLite: read rows, and views that were not made here

	refusals *refusals
	close    func() error
	log      *slog.Logger
}

// Open opens the engine that config names. It connects when it is first used.
func Open(ctx context.Context, config Config) (*DB, error) {
	if config.URL == "" {
		return openSQLite(ctx, config.Path, config.Log)
	}
	return openPostgres(ctx, config)
}

// Replicated reports whether Rows reads from a replica, which may be behind what was committed.
func (d *DB) Replicated() bool { return d.server != nil && d.server.config.ReadURL != "" }

// follow begins to follow the clock of an opened database, until it is closed.
func (d DB) follow(ctx context.Context, read func(context.Context) (measurement, error)) *DB {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var follower sync.WaitGroup
	closeEngine := d.close
	d.Clock = newClock(ctx, read, d.log)
	d.close = func() error {
		stop()
		follower.Wait()
		return closeEngine()
	}
	follower.Go(func() { d.Clock.follow(following) })
	return &d
}

// From returns the transaction in ctx, or else the writing pool.
func (d *DB) From(ctx context.Context) *gorm.DB { return d.in(ctx, d.write).WithContext(ctx) }

// Reader returns the transaction in ctx, or else the reading pool (the same as the writing one on PostgreSQL).
func (d *DB) Reader(ctx context.Context) *gorm.DB { return d.in(ctx, d.read).WithContext(ctx) }

// in returns the transaction in ctx, or else the pool.
func (d *DB) in(ctx context.Context, pool *gorm.DB) *gorm.DB {
	if t, ok := ctx.Value(txKey{d}).(carriedTx); ok {
		return t.tx
	}
	return pool
}

// Ping reports whether the engine answers and takes changes. It makes one only when one has failed.
func (d *DB) Ping(ctx context.Context) error {
	ping := d.pool.PingContext
	if d.engine == Postgres {
		ping = d.server.ping
	}
	if err := ping(ctx); err != nil {
		return fmt.Errorf("ping database: %w", Translate(err))
	}
	if !d.refusals.failed() {
		return nil
	}
	if err := d.TryChange(ctx); err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	return d.refusals.stored(ctx)
}

// Close releases all connections.
func (d *DB) Close() error { return d.close() }

// Numbers takes n numbers that are never given out again, in every process, and returns the first; on PostgreSQL n is
// 1. They are requests' uids and workers' ids. A transaction that is rolled back leaves a gap.
func (d *DB) Numbers(ctx context.Context, n int) (first int64, err error) {
	if d.engine == Postgres {
		_, err = One(ctx, d.SQL(ctx), `SELECT nextval('request_numbers')`, nil, &first)
	} else {
		_, err = One(ctx, d.SQL(ctx), `UPDATE sequences SET value = value + $1 WHERE name = 'request_numbers'
			RETURNING value - $2`, []any{n, n - 1}, &first)
	}
	return first, errs.Doing("take numbers", err)
}

// Installation returns the random id that the first migration gave this installation. A copy of the database has the
// same.
func (d *DB) Installation(ctx context.Context) (id string, err error) {
	_, err = One(ctx, d.ReaderSQL(ctx), `SELECT id FROM installation`, nil, &id)
	return id, errs.Doing("read the installation's id", err)
}
