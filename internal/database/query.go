package database

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"strings"

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
	return scan(rows, places)
}

// Scan is Query for a statement of gorm's, which is logged when it is slow or fails. gorm's own looks for the place of
// each column of each row.
func Scan[T any](statement *gorm.DB, places func(*T) []any) ([]T, error) {
	rows, err := statement.Rows()
	if err != nil {
		return nil, err
	}
	return scan(rows, places)
}

func scan[T any](rows *sql.Rows, places func(*T) []any) ([]T, error) {
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

// AnyOf returns the condition that a column is among the values of argument n, which Values makes: one array is planned
// alike however many they are.
func (d *DB) AnyOf(column string, n int) string {
	if d.engine == Postgres {
		return fmt.Sprintf(`%s = ANY($%d)`, column, n)
	}
	return fmt.Sprintf(`%s IN (SELECT value FROM json_each($%d))`, column, n)
}

// Values returns the argument of AnyOf, given a slice of texts or numbers.
func (d *DB) Values(values any) any {
	if d.engine == Postgres {
		return values
	}
	text, _ := json.Marshal(values) // it never fails
	return string(text)
}

// Arms joins one SELECT for each status, of which each is read in the order of its index.
func Arms[S ~string](statuses []S, arm func(S) string) string {
	arms := make([]string, len(statuses))
	for i, status := range statuses {
		arms[i] = `SELECT * FROM (` + arm(status) + `) AS arm`
	}
	return strings.Join(arms, ` UNION ALL `)
}
