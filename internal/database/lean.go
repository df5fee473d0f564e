package database

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// leanKey is the setting without which rows are written as the version before reads them.
const leanKey = "lean_rows"

const leanEvery = 5 * time.Second // between two looks of Lean

// lean is what Lean saw last. Once rows may be lean, they always may.
type lean struct {
	yes    atomic.Bool
	mu     sync.Mutex // for who looks: callers in a transaction must not wait for one that needs a connection
	looked time.Time
}

// Lean reports whether rows may be written in the forms that the version before cannot read: the installation began
// with this version, or AllowLeanRows was called some seconds ago. It is asked for each row that is written.
func (d *DB) Lean(ctx context.Context) bool {
	l := d.lean
	if l.yes.Load() || !l.mu.TryLock() {
		return l.yes.Load()
	}
	defer l.mu.Unlock()
	now := time.Now()
	if now.Sub(l.looked).Abs() < leanEvery {
		return l.yes.Load()
	}
	yes, err := d.leanRows(ctx)
	if err != nil {
		d.log.WarnContext(ctx, "rows are written as the version before reads them", "error", err)
	}
	l.looked = now
	l.yes.Store(yes)
	return yes
}

func (d *DB) leanRows(ctx context.Context) (bool, error) {
	var n int
	err := d.Reader(ctx).Raw(`SELECT count(*) FROM settings WHERE key = ?`, leanKey).Scan(&n).Error
	if err != nil {
		return false, fmt.Errorf("read the form of rows: %w", err)
	}
	return n > 0, nil
}

// AllowLeanRows lets rows be written in the forms that the version before cannot read. It is for good.
func (d *DB) AllowLeanRows(ctx context.Context) error {
	_, err := d.pool.ExecContext(ctx, `INSERT INTO settings (key, value, updated_at) VALUES ('`+leanKey+`', 'true', 0)
		ON CONFLICT (key) DO NOTHING`)
	if err != nil {
		return fmt.Errorf("allow the new form of rows: %w", Translate(err))
	}
	return nil
}
