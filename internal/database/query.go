package database

import (
	"context"

	"gorm.io/gorm"
)

// Query reads the rows of a statement to their end, each into the places of a fresh T. It is for the statements of
// batches, in which gorm would look for its placeholders each time.
func Query[T any](ctx context.Context, pool gorm.ConnPool, statement string, args []any, places func(*T) []any) (
	[]T, error) {
	rows, err := pool.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, Translate(err)
	}
	defer rows.Close()
	var list []T
	for rows.Next() {
		var v T
		if err := rows.Scan(places(&v)...); err != nil {
			return nil, Translate(err)
		}
		list = append(list, v)
	}
	return list, Translate(rows.Err())
}
