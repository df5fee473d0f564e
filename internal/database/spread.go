package database

import (
	"cmp"
	"context"
	"slices"

	"github.com/jackc/pgx/v5"
)

// Citus may spread the tables over several servers (deployments/citus.sql): each supplier's rows are together on one of
// them. This file is what is different there, with the store_spread.go files of the packages:
//
//   - statements over rows that are locked, or looked up one by one, run once for each supplier (BySupplier) and name
//     it (Of), so that they go to one server; on one server they take a whole batch;
//   - statements are planned with their values, as Citus has no generic plans (autoPlans).

// spreadQuery asks whether Citus has distributed the requests; the extension's own table is asked for first.
const spreadQuery = `SELECT EXISTS (
	SELECT FROM pg_dist_partition WHERE logicalrelid = to_regclass('material_requests'))`

// Spread reports whether the tables are spread over several servers. It is found out with the first connection.
func (d Dialect) Spread() bool { return d.spread != nil && d.spread.Load() }

// findSpread finds it out.
func findSpread(ctx context.Context, conn *pgx.Conn) (spread bool, err error) {
	const known = `SELECT to_regclass('pg_dist_partition') IS NOT NULL`
	for _, query := range []string{known, spreadQuery} {
		if err := conn.QueryRow(ctx, query, pgx.QueryExecModeExec).Scan(&spread); err != nil || !spread {
			return false, err
		}
	}
	return true, nil
}

// autoPlans has the session's statements planned by the server's own choice, unless the address says otherwise.
func (s *session) autoPlans(cfg *pgx.ConnConfig) {
	for i, w := range s.wanted {
		if w.name == "plan_cache_mode" && !w.given {
			s.wanted[i].value = "auto"
		}
	}
	s.planned(cfg)
}

// planned asks for these plans on a new connection.
func (s *session) planned(cfg *pgx.ConnConfig) {
	for _, w := range s.wanted {
		if _, asked := cfg.RuntimeParams[w.name]; asked && w.name == "plan_cache_mode" {
			cfg.RuntimeParams[w.name] = w.value
		}
	}
}

// BySupplier hands the items to fn: all at once on one server, and supplier by supplier, in their order, where the
// suppliers are on several.
func BySupplier[T any](d *DB, items []T, supplier func(T) string, fn func(items []T) error) error {
	if !d.Spread() {
		return fn(items)
	}
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b T) int { return cmp.Compare(supplier(a), supplier(b)) })
	for len(sorted) > 0 {
		n := slices.IndexFunc(sorted, func(item T) bool { return supplier(item) != supplier(sorted[0]) })
		if n < 0 {
			n = len(sorted)
		}
		if err := fn(sorted[:n:n]); err != nil {
			return err
		}
		sorted = sorted[n:]
	}
	return nil
}

// Of returns the condition that sends a statement to its supplier's server: the column equals the first element of the
// array, a parameter. It returns nothing unless suppliers are spread over several servers and these are all the same
// one.
func (d Dialect) Of(suppliers []string, column, array string) string {
	if !d.Spread() || len(slices.Compact(slices.Clone(suppliers))) != 1 {
		return ""
	}
	return ` AND ` + column + ` = (` + array + `::text[])[1]`
}

// Shared returns the expression of the supplier that all rows of such a statement have: the column, and where the
// suppliers are on several servers the first of the array, as a subquery is sent to the statement's server by its own
// condition only.
func (d Dialect) Shared(column, array string) string {
	if !d.Spread() {
		return column
	}
	return `(` + array + `::text[])[1]`
}
