package database

import (
	"context"
	"fmt"
)

// leanKey is the setting without which rows are written as the version before reads them.
const leanKey = "lean_rows"

// LeanRows reports whether rows may be written in the forms that the version before cannot read: the installation began
// with this version, or AllowLeanRows was called.
func (d *DB) LeanRows(ctx context.Context) (bool, error) {
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
