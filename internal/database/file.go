package database

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"
)

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
	if _, err := Exec(ctx, d.ReaderSQL(ctx), `VACUUM INTO $1`, path); err != nil {
		return fmt.Errorf("copy the database: %w", err)
	}
	return nil
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

func (d *DB) checkFile(ctx context.Context, statement string) error {
	if d.engine != SQLite {
		return nil
	}
	faults, err := Column[string](ctx, d.ReaderSQL(ctx), statement)
	if err != nil {
		return fmt.Errorf("check the database file: %w", damaged(err))
	}
	if found := strings.Join(faults, "; "); found != "ok" {
		return fmt.Errorf("%w: %s", ErrDamaged, found)
	}
	return nil
}

// CheckRestored reports what keeps this build from serving a database that was put there: ErrDamaged, or ErrSchema of a
// newer build. An older schema is migrated when it is served.
func (d *DB) CheckRestored(ctx context.Context) error {
	if err := d.CheckFile(ctx); err != nil {
		return err
	}
	state, err := migrator{d}.state(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("read schema version: %w", err)
	case state.development:
		return state.fault()
	case state.newest == 0:
		return fmt.Errorf("%w: it has none of supplyhub's tables", ErrSchema)
	case state.ahead > 0:
		return state.fault()
	default:
		return nil
	}
}
