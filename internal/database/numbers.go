package database

import (
	"context"
	"fmt"
)

// Numbers takes n numbers that are never given out again, in every process, and returns the first; on PostgreSQL n is
// 1.
func (d *DB) Numbers(ctx context.Context, n int) (first int64, err error) {
	if d.engine == Postgres {
		err = d.From(ctx).Raw(`SELECT nextval('request_numbers')`).Scan(&first).Error
	} else {
		err = d.From(ctx).Raw(`UPDATE sequences SET value = value + ? WHERE name = 'request_numbers' RETURNING value - ?`, n,
			n-1).Scan(&first).Error
	}
	if err != nil {
		return 0, fmt.Errorf("take numbers: %w", err)
	}
	return first, nil
}

// LastNumber returns the greatest number that was given out.
func (d *DB) LastNumber(ctx context.Context) (last int64, err error) {
	statement := `SELECT value FROM sequences WHERE name = 'request_numbers'`
	if d.engine == Postgres {
		statement = `SELECT last_value FROM request_numbers`
	}
	if err := d.Reader(ctx).Raw(statement).Scan(&last).Error; err != nil {
		return 0, fmt.Errorf("read the last number: %w", err)
	}
	return last, nil
}
