package database

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations
var migrations embed.FS

// Migrate brings the schema to the newest version. Several processes may call it at once: PostgreSQL's
// advisory lock or, on SQLite, a lock file lets one of them work while the others wait.
func (d *DB) Migrate(ctx context.Context) (err error) {
	if d.lock != "" {
		file := flock.New(d.lock)
		if err := file.Lock(); err != nil {
			return fmt.Errorf("migrate: lock %s: %w", d.lock, err)
		}
		defer func() { err = errors.Join(err, file.Unlock()) }()
	}
	provider, err := d.provider()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	results, err := provider.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", Translate(err))
	}
	for _, r := range results {
		d.log.InfoContext(ctx, "migration applied", "migration", r.Source.Version, "duration", r.Duration)
	}
	return nil
}

// Pending tells whether the schema lacks a migration of this binary.
func (d *DB) Pending(ctx context.Context) (bool, error) {
	provider, err := d.provider()
	if err != nil {
		return false, fmt.Errorf("read schema version: %w", err)
	}
	pending, err := provider.HasPending(ctx)
	if err != nil {
		return false, fmt.Errorf("read schema version: %w", Translate(err))
	}
	return pending, nil
}

func (d *DB) provider() (*goose.Provider, error) {
	dir, err := fs.Sub(migrations, "migrations/"+string(d.engine))
	if err != nil {
		return nil, err
	}
	options := []goose.ProviderOption{goose.WithDisableGlobalRegistry(true)}
	dialect := goose.DialectSQLite3
	if d.engine == Postgres {
		dialect = goose.DialectPostgres
		locker, err := lock.NewPostgresSessionLocker()
		if err != nil {
			return nil, err
		}
		options = append(options, goose.WithSessionLocker(locker))
	}
	return goose.NewProvider(dialect, d.pool, dir, options...)
}
