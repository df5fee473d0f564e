package database

import (
	"context"
	"fmt"
)

// Installation returns the random id that the first migration gave this installation. A copy of the database has the
// same.
func (d *DB) Installation(ctx context.Context) (id string, err error) {
	if err := d.Reader(ctx).Raw(`SELECT id FROM installation`).Scan(&id).Error; err != nil {
		return "", fmt.Errorf("read the installation's id: %w", err)
	}
	return id, nil
}
