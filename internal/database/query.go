package database

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// Statements are written out, with $1, $2, … on both engines, and run by Query, Column, One and Exec. gorm carries the
// connection and the transaction; its builder serves where a statement follows from a row's struct: the rate
// card and products.

// Pool is where statements run: the transaction of a context, or else a pool of connections.
type Pool struct {
	gorm.ConnPool
	db *DB
}

// SQL returns the transaction in ctx, or else the writing pool; slices pass as PostgreSQL arrays.
func (d *DB) SQL(ctx context.Context) Pool { return Pool{d.in(ctx, d.write).Statement.ConnPool, d} }

// ReaderSQL returns the transaction in ctx, or else the reading pool (the same as the writing one on PostgreSQL).
func (d *DB) ReaderSQL(ctx context.Context) Pool {
	return Pool{d.in(ctx, d.read).Statement.ConnPool, d}
}

// ended reports a statement to the log when it was slow or has failed, as gorm does with its own, and remembers a
// change that could not be stored: Ping then tries one until it can. It returns the error as Translate does.
func (p Pool) ended(ctx context.Context, began time.Time, statement string, rows int64, err error) error {
	p.db.write.Logger.Trace(ctx, began, func() (string, int64) { return statement, rows }, err)
	return p.db.refusals.note(ctx, err)
}

// Query reads the rows of a statement to their end, each into the places of a fresh T. Only then is a statement outside
// of a transaction committed. gorm's own reading looks for the place of each column of each row.
func Query[T any](ctx context.Context, pool Pool, statement string, args []any, places func(*T) []any) ([]T, error) {
	began := time.Now()
	list, err := query(ctx, pool, statement, args, places)
	return list, pool.ended(ctx, began, statement, int64(len(list)), err)
}

// query is Query without its report.
func query[T any](ctx context.Context, pool Pool, statement string, args []any, places func(*T) []any) (
	list []T, err error) {
	rows, err := pool.QueryContext(ctx, statement, args...)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var v T
		if err := rows.Scan(places(&v)...); err != nil {
			return nil, err
		}
		list = append(list, v)
	}
	return list, rows.Err()
}

// Column is Query for rows of one column.
func Column[T any](ctx context.Context, pool Pool, statement string, args ...any) ([]T, error) {
	return Query(ctx, pool, statement, args, func(v *T) []any { return []any{v} })
}

// Pairs is Query for rows of two columns: the second by the first.
func Pairs[K comparable, V any](ctx context.Context, pool Pool, statement string, args ...any) (map[K]V, error) {
	type pair struct {
		key   K
		value V
	}
	rows, err := Query(ctx, pool, statement, args, func(p *pair) []any { return []any{&p.key, &p.value} })
	return lists.Pairs(rows, func(p pair) (K, V) { return p.key, p.value }), err
}

// Set returns what a column has as a set.
func Set[T comparable](column []T) map[T]bool {
	return lists.Pairs(column, func(v T) (T, bool) { return v, true })
}

// TimeOrNil returns the time of a column that may have none.
func TimeOrNil(micros *int64) *time.Time {
	if micros == nil {
		return nil
	}
	return new(time.UnixMicro(*micros).UTC())
}

// One reads at most one row into the places, and reports whether there is one. Without one they keep what they had.
func One(ctx context.Context, pool Pool, statement string, args []any, places ...any) (found bool, err error) {
	rows, err := Query(ctx, pool, statement, args, func(*struct{}) []any { return places })
	return len(rows) > 0, err
}

// Exec runs a statement that returns no rows, and returns how many it changed.
func Exec(ctx context.Context, pool Pool, statement string, args ...any) (changed int64, err error) {
	began := time.Now()
	result, err := pool.ExecContext(ctx, statement, args...)
	if err == nil {
		changed, err = result.RowsAffected()
	}
	return changed, pool.ended(ctx, began, statement, changed, err)
}

// Places returns the places of n rows of as many values each, for SQLite's inserts of several rows. They have no
// numbers: SQLite looks each number up among all before it, which makes 128 rows of 12 values 17 times slower.
func Places(n, each int) string {
	row := "(?" + strings.Repeat(", ?", each-1) + ")"
	return row + strings.Repeat(", "+row, n-1)
}

// Arms joins one SELECT for each status; each is read in the order of its index.
func Arms[S ~string](statuses []S, arm func(S) string) string {
	arms := lists.Of(statuses, func(status S) string { return `SELECT * FROM (` + arm(status) + `) AS arm` })
	return strings.Join(arms, ` UNION ALL `)
}

const slowStatement = time.Second

// statements logs statements that fail or are slow, and never a bound value: those hold secrets' hashes and suppliers'
// data. A statement whose caller hung up has not failed. Messages of gorm itself are left out.
type statements struct {
	logger.Interface
	log *slog.Logger
}

// ParamsFilter keeps the values out of the statement that Trace is given.
func (s *statements) ParamsFilter(_ context.Context, sql string, _ ...any) (string, []any) {
	return sql, nil
}

// Trace is called after each statement.
func (s *statements) Trace(ctx context.Context, begin time.Time, statement func() (string, int64), err error) {
	took := time.Since(begin)
	failed := err != nil && !errors.Is(err, gorm.ErrRecordNotFound)
	switch {
	case !failed && took < slowStatement, errors.Is(ctx.Err(), context.Canceled), errors.Is(err, context.Canceled):
	case !failed:
		sql, rows := statement()
		s.log.WarnContext(ctx, "slow statement", "statement", sql, "rows", rows, "duration", took)
	case errs.KindOf(Translate(err)) == errs.Unavailable: // the log's handler lets one such line a minute through
		s.log.WarnContext(ctx, "the database is unavailable", "error", Translate(err))
	default:
		sql, _ := statement()
		s.log.ErrorContext(ctx, "a statement failed", "statement", sql, "duration", took, "error", err.Error())
	}
}
