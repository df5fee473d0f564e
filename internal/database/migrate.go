package database

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"time"

	"github.com/gofrs/flock"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// The schema has a version, the number of its last migration. A process serves a schema of its own version, or of the
// next one while an upgrade rolls. goose applies migrations; the table of versions has a name of its own.

const (
	lockPoll  = 500 * time.Millisecond
	lockTries = 1200             // ten minutes
	lockLease = 30 * time.Second // after which the lock of a process that died is free, by the database's clock
	lockBeat  = 5 * time.Second
	lockNote  = time.Second // after which the log says what a start waits for

)

// Migrations are the schema of each engine, by its name.
//
//go:embed migrations
var Migrations embed.FS

// versionTable has the versions of the migrations that were applied.
const versionTable = "schema_versions"

// ErrSchema says that the schema is not the one that this build works with.
var ErrSchema = errors.New("the schema's version does not fit this build")

// Migrate brings the schema to the newest version. Several processes may call it at once: a row with a lease on
// PostgreSQL, which holds through a connection pooler too, or a lock file on SQLite lets one of them work while the
// others wait. The schema of the next version is left as it is, so that an upgrade can roll; a newer one is ErrSchema.
//
// A process that dies while it migrates leaves what goose has committed, a whole migration or none of it; the next one
// gets the lock when the lease of 30 s is over and goes on from there.
func (d *DB) Migrate(ctx context.Context) (err error) {
	state, err := d.patientState(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	if d.engine == Postgres {
		d.warnUntested(ctx)
	}
	if state.ahead > 1 {
		return state.fault()
	}
	if state.ahead == 1 {
		d.log.WarnContext(ctx, "the schema is the next version's: this process is to be replaced by it", "schema",
			state.newest, "known", state.known)
		return nil
	}
	if state.missing == 0 {
		return nil
	}
	if d.engine == SQLite {
		return d.migrateSQLite(ctx)
	}
	return patiently(ctx, d.log, func() error { return d.migratePostgres(ctx) })
}

// CheckSchema reports ErrSchema unless the schema is exactly the one of this build.
func (d *DB) CheckSchema(ctx context.Context) error {
	state, err := d.patientState(ctx)
	if err == nil && (state.missing > 0 || state.ahead > 0) {
		return state.fault()
	}
	return errs.Doing("read schema version", err)
}

// schemaState compares the schema with this build's migrations.
type schemaState struct {
	known, newest int64 // versions of this build and of the database
	missing       int   // migrations of this build that were not applied
	ahead         int64 // versions after this build's
}

// fault returns, in one line with what to do, why this build does not work with the schema.
func (s schemaState) fault() error {
	if s.ahead > 0 {
		return fmt.Errorf("%w: it is at version %d, newer than %d: use the newer build", ErrSchema, s.newest, s.known)
	}
	return fmt.Errorf("%w: it is at version %d, older than %d: run `api migrate`", ErrSchema, s.newest, s.known)
}

// patientState is state for a process that starts: it waits while the server is busy.
func (d *DB) patientState(ctx context.Context) (state schemaState, err error) {
	err = patiently(ctx, d.log, func() (err error) { state, err = d.state(ctx); return err })
	return state, err
}

// state reads which migrations the database has. It changes nothing and makes nothing, as goose would.
func (d *DB) state(ctx context.Context) (s schemaState, err error) {
	versioned := Either(d.Dialect, `SELECT to_regclass('`+versionTable+`') IS NOT NULL`,
		`SELECT count(*) > 0 FROM sqlite_master WHERE name = '`+versionTable+`'`)
	var applied []int64
	found, err := Column[bool](ctx, Pool{d.pool, d}, versioned)
	if err == nil && found[0] {
		applied, err = Column[int64](ctx, Pool{d.pool, d}, `SELECT version_id FROM `+versionTable+` WHERE is_applied`)
	}
	if err != nil {
		return s, err
	}
	provider, err := d.provider()
	if err != nil {
		return s, err
	}
	for _, source := range provider.ListSources() {
		s.known = max(s.known, source.Version)
		if !slices.Contains(applied, source.Version) {
			s.missing++
		}
	}
	s.newest = slices.Max(append(applied, 0))
	s.ahead = max(s.newest-s.known, 0)
	return s, nil
}

// migrateSQLite migrates while it holds the lock file, which the operating system frees when a process dies.
func (d *DB) migrateSQLite(ctx context.Context) (err error) {
	file := flock.New(d.lock)
	waiting, cancel := context.WithTimeout(ctx, lockTries*lockPoll)
	note := d.noteWaiting(ctx)
	_, err = file.TryLockContext(waiting, lockPoll)
	cancel()
	if note.Stop(); err != nil {
		return fmt.Errorf("migrate: lock %s: %w", d.lock, err)
	}
	defer func() { err = errors.Join(err, file.Unlock()) }()
	provider, err := d.provider()
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return d.up(ctx, provider)
}

// migratePostgres works on connections of its own, without a statement timeout.
func (d *DB) migratePostgres(ctx context.Context) (err error) {
	config := d.server.config
	config.Profile, config.NoReaders = Maintenance, true
	own, err := openPostgres(ctx, config)
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	defer func() { err = errors.Join(err, own.Close()) }()
	locker, err := lock.NewPostgresTableLocker(
		lock.WithTableLockTimeout(lockPoll, lockTries), lock.WithTableLeaseDuration(lockLease),
		lock.WithTableHeartbeatInterval(lockBeat),
		lock.WithTableLogger(slog.New(slog.DiscardHandler)), lock.WithTableRetryPolicy(held))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	provider, err := own.provider(goose.WithLocker(noting{locker, d}))
	if err != nil {
		return fmt.Errorf("migrate: %w", err)
	}
	return own.up(ctx, provider)
}

// held reports whether the lock could not be taken because another process has it.
func held(err error) bool {
	_, refused := errors.AsType[*pgconn.PgError](err)
	return !refused && errs.KindOf(Translate(err)) != errs.Unavailable
}

// noting is a lock whose waiting is in the log.
type noting struct {
	lock.Locker
	db *DB
}

// Lock waits for the lock.
func (n noting) Lock(ctx context.Context, db *sql.DB) error {
	defer n.db.noteWaiting(ctx).Stop()
	return n.Locker.Lock(ctx, db)
}

// noteWaiting writes to the log what a start waits for, unless it is stopped before.
func (d *DB) noteWaiting(ctx context.Context) *time.Timer {
	return time.AfterFunc(lockNote, func() {
		d.log.WarnContext(ctx, "waiting for another process's migration", "longest", lockTries*lockPoll)
	})
}

// up applies what is missing, each migration in a transaction of its own, and logs each.
func (d *DB) up(ctx context.Context, provider *goose.Provider) error {
	results, err := provider.Up(ctx)
	if err != nil {
		return fmt.Errorf("migrate: %w", Translate(err))
	}
	for _, r := range results {
		d.log.InfoContext(ctx, "migration applied", "migration", r.Source.Version, "duration", r.Duration)
	}
	return nil
}

// provider returns goose over the engine's embedded migrations. Nothing global is used: tests migrate many databases
// at once.
func (d *DB) provider(options ...goose.ProviderOption) (*goose.Provider, error) {
	dir, err := fs.Sub(Migrations, "migrations/"+string(d.engine))
	if err != nil {
		return nil, err
	}
	dialect := Either(d.Dialect, goose.DialectPostgres, goose.DialectSQLite3)
	return goose.NewProvider(dialect, d.pool, dir, append(append(options, nextVersion(dir)...),
		goose.WithDisableGlobalRegistry(true), goose.WithTableName(versionTable))...)
}
