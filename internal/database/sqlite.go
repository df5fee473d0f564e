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
	"sync/atomic"

	"gorm.io/gorm"
)

// sqliteReaders is how many connections read while one writes.
const sqliteReaders = 4

// embedded is SQLite in a program that has it, as database/sql keeps its drivers.
var embedded atomic.Pointer[engine]

// engine is a driver of database/sql and gorm's words for it.
type engine struct {
	driver    string
	dialector func(*sql.DB) gorm.Dialector
}

// Embed makes SQLite known; internal/database/sqlite calls it.
func Embed(driver string, dialector func(*sql.DB) gorm.Dialector) {
	embedded.Store(&engine{driver, dialector})
}

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
	writer, err := lite.connections(path, 1)
	if err != nil {
		return nil, err
	}
	reader, err := lite.connections(path, sqliteReaders)
	if err != nil {
		return nil, errors.Join(err, writer.Close())
	}
	closeBoth := func() error { return errors.Join(reader.Close(), writer.Close()) }
	refused := &refusals{log: log}
	w, err := openGorm(lite.dialector(writer), refused)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, damaged(err)), closeBoth())
	}
	r, err := openGorm(lite.dialector(reader), refused)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", path, damaged(err)), closeBoth())
	}
	return newDB(ctx, DB{engine: SQLite, write: w, read: r, pool: writer, lock: path + ".lock", refusals: refused,
		close: closeBoth, log: log}), nil
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
func (e *engine) connections(path string, n int) (*sql.DB, error) {
	options := url.Values{"_txlock": {"immediate"}, "_pragma": {
		"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(FULL)", "foreign_keys(1)", "cache_size(-8000)",
	}}
	db, err := sql.Open(e.driver, "file:"+(&url.URL{Path: path}).EscapedPath()+"?"+options.Encode())
	if err != nil {
		return nil, fmt.Errorf("open database %s: %w", path, err)
	}
	db.SetMaxOpenConns(n)
	db.SetMaxIdleConns(n)
	return db, nil
}
