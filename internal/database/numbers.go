package database

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Numbers takes n numbers that are never given out again, in every process, and returns the first; on PostgreSQL n is
// 1. They are requests' uids and workers' ids. A transaction that is rolled back leaves a gap.
func (d *DB) Numbers(ctx context.Context, n int) (first int64, err error) {
	if d.engine == Postgres {
		_, err = One(ctx, d.SQL(ctx), `SELECT nextval('request_numbers')`, nil, &first)
	} else {
		_, err = One(ctx, d.SQL(ctx), `UPDATE sequences SET value = value + $1 WHERE name = 'request_numbers'
			RETURNING value - $2`, []any{n, n - 1}, &first)
	}
	return first, errs.Doing("take numbers", err)
}

// Installation returns the random id that the first migration gave this installation. A copy of the database has the
// same.
func (d *DB) Installation(ctx context.Context) (id string, err error) {
	if _, err := One(ctx, d.ReaderSQL(ctx), `SELECT id FROM installation`, nil, &id); err != nil {
		return "", fmt.Errorf("read the installation's id: %w", err)
	}
	return id, nil
}
