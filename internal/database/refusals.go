package database

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"gorm.io/gorm"
)

// refusedFor is how long after a change that could not be stored the database counts as one that takes none: a small
// change may still find room where a larger one does not.
const refusedFor = 5 * time.Second

// refusals is why the engine, which answers, could not store a change lately: its disk is full, or it may not write.
type refusals struct {
	log *slog.Logger

	mu  sync.Mutex
	err error // nil: nothing failed
	at  time.Time
}

// note translates an error and keeps it when it says that a change could not be stored. The log's handler lets one such
// line a minute through.
func (r *refusals) note(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	unable := faultOf(err) == unstored
	if err = Translate(err); !unable {
		return err
	}
	r.mu.Lock()
	r.err, r.at = err, time.Now()
	r.mu.Unlock()
	r.log.WarnContext(ctx, "the database takes no changes", "error", err)
	return err
}

func (r *refusals) failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err != nil
}

// stored notes that a change was stored. It returns why another could not be a moment ago.
func (r *refusals) stored(ctx context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.at) < refusedFor {
		return r.err
	}
	if r.err != nil {
		r.log.InfoContext(ctx, "the database takes changes again")
	}
	r.err = nil
	return nil
}

// TryChange writes rows and takes them back in one transaction, which no other one sees: some pages of them, as one
// row may find room where a disk is full. They are of a table in which every role may write and delete.
func (d *DB) TryChange(ctx context.Context) error {
	const rows = 1000
	process := rand.Int64() // two who try at once do not wait for each other's keys
	err := d.write.WithContext(ctx).Transaction(func(tx *gorm.DB) error {
		own := Pool{tx.Statement.ConnPool, d}
		_, err := Exec(ctx, own, `WITH RECURSIVE steps (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM steps WHERE n < $1)
			INSERT INTO figures (step, process, accepted, delivered)
			SELECT -n, CAST($2 AS bigint), 0, 0 FROM steps`, rows, process)
		if err != nil {
			return err
		}
		_, err = Exec(ctx, own, `DELETE FROM figures WHERE step < 0 AND process = $1`, process)
		return err
	})
	if err = d.refusals.note(ctx, err); err != nil {
		return fmt.Errorf("write rows and take them back: %w", err)
	}
	return nil
}
