// Package database opens either engine, migrates it and carries a transaction in the context.
// Only files named store*.go ask it for a connection. It knows no feature.
package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"

	"gorm.io/gorm"
)

// Engine names the SQL engine behind a DB.
type Engine string

// The two engines.
const (
	Postgres Engine = "postgres"
	SQLite   Engine = "sqlite"
)

// Config says where the database is and what it is opened for.
type Config struct {
	URL       string // postgres:// or postgresql://; empty: the SQLite file at Path
	ReadURL   string // where Rows reads, a replica; empty: URL
	Path      string
	Profile   Profile
	NoReaders bool // Rows is not used: all connections are for From and SQL
	Log       *slog.Logger
}

// DB is one open database. All times in it are Unix microseconds in UTC, on both engines.
type DB struct {
	engine Engine
	write  *gorm.DB
	read   *gorm.DB
	pool   *sql.DB // the writing pool, for migrations and pings
	server *server // PostgreSQL only
	lock   string  // SQLite: the file that serialises migrations between processes
	clock  *clock

	refusals *refusals
	close    func() error
	log      *slog.Logger
}

// Open opens the engine that config names. It connects when it is first used.
func Open(ctx context.Context, config Config) (*DB, error) {
	if config.URL == "" {
		return openSQLite(ctx, config.Path, config.Log)
	}
	for _, address := range []string{config.URL, config.ReadURL} {
		if address != "" && !strings.HasPrefix(address, "postgres://") && !strings.HasPrefix(address, "postgresql://") {
			return nil, errors.New("open database: the address must start with postgres://")
		}
	}
	return openPostgres(ctx, config)
}

// Engine returns which engine this is, for the few statements that cannot be the same on both.
func (d *DB) Engine() Engine { return d.engine }

// Replicated reports whether Rows reads from a replica, which may be behind what was committed.
func (d *DB) Replicated() bool { return d.server != nil && d.server.config.ReadURL != "" }

// RowLock returns the locking clause on PostgreSQL, and nothing on SQLite, which has one writer.
func (d *DB) RowLock(clause string) string {
	if d.engine == Postgres {
		return clause
	}
	return ""
}

// Flushers returns how many batches are worth writing side by side.
func (d *DB) Flushers() int {
	if d.engine == Postgres {
		return 2
	}
	return 1 // SQLite has one writer
}

// From returns the transaction in ctx, or else the writing pool.
func (d *DB) From(ctx context.Context) *gorm.DB { return d.in(ctx, d.write).WithContext(ctx) }

// Reader returns the transaction in ctx, or else the reading pool (the same as the writing one on PostgreSQL).
func (d *DB) Reader(ctx context.Context) *gorm.DB { return d.in(ctx, d.read).WithContext(ctx) }

// SQL is From without gorm's query building, for hot statements; slices pass as PostgreSQL arrays.
func (d *DB) SQL(ctx context.Context) gorm.ConnPool { return d.in(ctx, d.write).Statement.ConnPool }

// ReaderSQL is Reader without gorm's query building.
func (d *DB) ReaderSQL(ctx context.Context) gorm.ConnPool {
	return d.in(ctx, d.read).Statement.ConnPool
}

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
