package database

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// The embedded engine: one file, one writer. Commits survive a loss of power (synchronous FULL, WAL). SQLite itself
// is linked by package database/sqlite, so that a worker does not carry it. The file can be copied while it is used,
// and is checked at each start as far as two seconds reach.

// Connections that read while one writes. sqliteOthers of them read only views that were not made here.
const (
	sqliteReaders = 6
	sqliteOthers  = 2
	cacheKiB      = 8000 // of the writer
	readCacheKiB  = 5000 // of each reader
)

// embedded is SQLite in a program that has it, as database/sql keeps its drivers.
var embedded atomic.Pointer[engine]

// engine is a driver of database/sql and gorm's words for it.
type engine struct {
	driver    string
	dialector func(*sql.DB) SavingDialector
	bound     func(conn *sql.Conn, bytes int) error
}

// Embed makes SQLite known; internal/database/sqlite calls it. Bound limits the rows and values of a connection.
func Embed(driver string, dialector func(*sql.DB) SavingDialector, bound func(conn *sql.Conn, bytes int) error) {
	embedded.Store(&engine{driver, dialector, bound})
}

// openSQLite opens three pools over one file: one connection that writes, so that writers queue in this process and not
// at the file's lock, and some that read next to it (WAL), those for views of others apart.
func openSQLite(ctx context.Context, path string, log *slog.Logger) (*DB, error) {
	lite := embedded.Load()
	if lite == nil {
		return nil, errors.New("open database: this program has no SQLite: set DATABASE_URL")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	if err := private(path); err != nil {
		return nil, fmt.Errorf("open database: %w", err)
	}
	writer, err := lite.connections(path, 1, cacheKiB)
	if err != nil {
		return nil, err
	}
	reader, err := lite.connections(path, sqliteReaders, readCacheKiB)
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	others, err := lite.connections(path, sqliteOthers, readCacheKiB, "query_only(1)")
	if err != nil {
		return nil, errors.Join(err, reader.Close(), writer.Close())
	}
	closeAll := func() error { return errors.Join(others.Close(), reader.Close(), writer.Close()) }
	refused := &refusals{log: log}
	w, err := openGorm(lite.dialector(writer), refused)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, damaged(err)), closeAll())
	}
	r, err := openGorm(lite.dialector(reader), refused)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, damaged(err)), closeAll())
	}
	db := DB{Dialect: Dialect{engine: SQLite}, write: w, read: r, pool: writer, lock: path + ".lock", refusals: refused,
		close: closeAll, log: log, readPool: reader, othersPool: others}
	return db.follow(ctx, machineClock), nil
}

// private makes the database's files readable by their owner alone; SQLite gives new ones next to it the same mode.
func private(path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	if err := file.Close(); err != nil {
		return err
	}
	for _, name := range []string{path, path + "-wal", path + "-shm"} {
		if err := os.Chmod(name, 0o600); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// connections opens a pool whose commits survive a power loss (synchronous FULL) and whose transactions take
// the write lock at once, so that two of them wait for each other instead of failing.
func (e *engine) connections(path string, n, cache int, pragmas ...string) (*sql.DB, error) {
	// _dqs: without it a column that is not there would be read as the text of its name.
	options := url.Values{"_txlock": {"immediate"}, "_dqs": {"0"}, "_pragma": append([]string{
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)",
		fmt.Sprintf("cache_size(-%d)", cache),
	}, pragmas...)}
	db, err := sql.Open(e.driver, "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+options.Encode())
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}

// ErrDamaged says that the SQLite file is not whole.
var ErrDamaged = errors.New("the database file is damaged, restore a backup (`api restore`)")

// damaged adds ErrDamaged to an error that says so.
func damaged(err error) error {
	if lite, ok := errors.AsType[liteError](err); ok {
		if code := lite.Code() & litePrimary; code == liteCorrupt || code == liteNoDatabase {
			return fmt.Errorf("%w: %w", ErrDamaged, err)
		}
	}
	return err
}

// CopyTo writes the SQLite file as it is at one moment to a path where nothing is. Others read and write meanwhile.
func (d *DB) CopyTo(ctx context.Context, path string) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600) // SQLite takes an empty file, with its mode
	if err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	_, err = Exec(ctx, d.ReaderSQL(ctx), `VACUUM INTO $1`, path)
	return errs.Doing("copy the database", err)
}

// CheckFile reads the whole SQLite file and returns ErrDamaged when something in it contradicts something else, its
// indexes included. On PostgreSQL there is nothing to check.
func (d *DB) CheckFile(ctx context.Context) error {
	return d.checkFile(ctx, `PRAGMA integrity_check(3)`)
}

// GlanceAtFile is CheckFile for a start, which cannot take long: it leaves the indexes out, and ends unfinished when
// the time is over.
func (d *DB) GlanceAtFile(ctx context.Context, longest time.Duration) error {
	glance, cancel := context.WithTimeout(ctx, longest)
	defer cancel()
	err := d.checkFile(glance, `PRAGMA quick_check(3)`)
	if glance.Err() != nil && !errors.Is(err, ErrDamaged) {
		return ctx.Err()
	}
	return err
}

// checkFile runs one of SQLite's checks and reads what it found; "ok" is nothing.
func (d *DB) checkFile(ctx context.Context, statement string) error {
	if d.engine != SQLite {
		return nil
	}
	var faults []string
	err := patiently(ctx, d.log, func() (err error) {
		faults, err = Column[string](ctx, d.ReaderSQL(ctx), statement)
		return err
	})
	if found := strings.Join(faults, "; "); err == nil && found != "ok" {
		return fmt.Errorf("%w: %s", ErrDamaged, found)
	}
	return errs.Doing("check the database file", damaged(err))
}

// CheckRestored reports what keeps this build from serving a database that was put there: ErrDamaged, or ErrSchema of a
// newer build. An older schema is migrated when it is served.
func (d *DB) CheckRestored(ctx context.Context) error {
	if err := d.CheckFile(ctx); err != nil {
		return err
	}
	state, err := d.state(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read schema version: %w", err)
	case state.newest == 0:
		return fmt.Errorf("%w: it has none of supplyhub's tables", ErrSchema)
	case state.ahead > 0:
		return state.fault()
	default:
		return nil
	}
}

const (
	yieldAfter = 50 * time.Millisecond  // of writing
	yieldFor   = 150 * time.Millisecond // longer than a waiter for SQLite's lock sleeps between two looks
)

// Yield lets other processes write between two transactions of a long command, which has written since the given time
// (zero: it just began), and returns since when it does now. SQLite wakes none that waits: each looks now and then, and
// would find the next transaction under way. PostgreSQL has no need of it.
func (d *DB) Yield(ctx context.Context, since time.Time) time.Time {
	switch {
	case since.IsZero():
		return time.Now()
	case d.Engine() != SQLite || time.Since(since) < yieldAfter:
		return since
	}
	sleep.For(ctx, yieldFor)
	return time.Now()
}
