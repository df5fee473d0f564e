package database

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
)

// Engine names the SQL engine behind a DB.
type Engine string

// The two engines.
const (
	Postgres Engine = "postgres"
	SQLite   Engine = "sqlite"
)

// Dialect writes the parts of a statement that differ between the engines. Most statements are the same on both. Those
// for batches take arrays on PostgreSQL and JSON on SQLite.
type Dialect struct {
	engine Engine
	spread *atomic.Bool // nil on SQLite; see spread.go
}

// Engine returns the engine, for the few statements that cannot be the same on both.
func (d Dialect) Engine() Engine { return d.engine }

// Either returns the one of the two that is for the engine in use.
func Either[T any](d Dialect, postgres, sqlite T) T {
	if d.engine == Postgres {
		return postgres
	}
	return sqlite
}

// RowLock returns the locking clause on PostgreSQL, and nothing on SQLite, which has one writer.
func (d Dialect) RowLock(clause string) string { return Either(d, clause, "") }

// Flushers returns how many batches are worth writing side by side. SQLite has one writer.
func (d Dialect) Flushers() int { return Either(d, 2, 1) }

// AnyOf returns the condition that a column is among the values of argument n, which Values makes. They are one
// argument, so the plan does not depend on their number.
func (d Dialect) AnyOf(column string, n int) string {
	return fmt.Sprintf(Either(d, `%s = ANY($%d)`, `%s IN (SELECT value FROM json_each($%d))`), column, n)
}

// Chosen returns the condition that a column is among the results of a query that has a LIMIT or skips locked rows. On
// PostgreSQL the query then runs once. A join might be planned while the table is empty and later run the query again
// for each row: that is slow, and chooses more than the LIMIT.
func (d Dialect) Chosen(column, query string) string {
	if d.engine == Postgres && !d.Spread() {
		return column + ` = ANY (ARRAY(` + query + `))`
	}
	return column + ` IN (` + query + `)`
}

// Free returns the condition that a row meets those and no transaction has locked it. Maintenance passes over locked
// rows this way and comes again. On SQLite, which has one writer, and where rows on several servers cannot be locked
// together, it returns those alone.
func (d Dialect) Free(table, key, those string) string {
	if d.engine != Postgres || d.Spread() {
		return those
	}
	return d.Chosen(key, `SELECT `+key+` FROM `+table+` WHERE `+those+` FOR UPDATE SKIP LOCKED`)
}

// Values turns a slice of texts or numbers into the argument of AnyOf.
func (d Dialect) Values(values any) any {
	if d.engine == Postgres {
		return values
	}
	text, _ := json.Marshal(values) // texts and numbers never fail
	return string(text)
}

// Text returns a text of a stranger's, such as an error's, as both engines take it: valid UTF-8 without NUL, of so many
// bytes at most. PostgreSQL refuses any other one, with all that its transaction writes.
func Text(text string, limit int) string {
	return strings.ReplaceAll(strings.ToValidUTF8(text[:min(len(text), limit)], ""), "\x00", "")
}
