package database

import (
	"encoding/json"
	"fmt"
	"sync/atomic"
)

// Engine names the SQL engine behind a DB.
type Engine string

// The two engines.
const (
	Postgres Engine = "postgres"
	SQLite   Engine = "sqlite"
)

// Dialect is what a statement must know of the engine that runs it. Most statements are the same on both engines; those
// of batches take arrays on PostgreSQL and JSON on SQLite.
type Dialect struct {
	engine Engine
	spread *atomic.Bool // nil on SQLite; see spread.go
}

// Engine returns which engine this is, for the few statements that cannot be the same on both.
func (d Dialect) Engine() Engine { return d.engine }

// RowLock returns the locking clause on PostgreSQL, and nothing on SQLite, which has one writer.
func (d Dialect) RowLock(clause string) string {
	if d.engine == Postgres {
		return clause
	}
	return ""
}

// Flushers returns how many batches are worth writing side by side.
func (d Dialect) Flushers() int {
	if d.engine == Postgres {
		return 2
	}
	return 1 // SQLite has one writer
}

// AnyOf returns the condition that a column is among the values of argument n, which Values makes: one array is planned
// alike however many they are.
func (d Dialect) AnyOf(column string, n int) string {
	if d.engine == Postgres {
		return fmt.Sprintf(`%s = ANY($%d)`, column, n)
	}
	return fmt.Sprintf(`%s IN (SELECT value FROM json_each($%d))`, column, n)
}

// Chosen returns the condition that a column is among those that a query of one column chooses, by a LIMIT or by what
// it can lock. On PostgreSQL the query runs once. A join with it may be planned while the table is empty, and then runs
// it again for each row that the table has later: it is slow, and chooses more than the LIMIT.
func (d Dialect) Chosen(column, query string) string {
	if d.engine == Postgres && !d.Spread() {
		return column + ` = ANY (ARRAY(` + query + `))`
	}
	return column + ` IN (` + query + `)`
}

// Free returns the condition that a row of the table is one of those and locked by no transaction, for maintenance that
// passes over the rows of others and comes again. SQLite has one writer, and rows on several servers are not locked
// together.
func (d Dialect) Free(table, key, those string) string {
	if d.engine != Postgres || d.Spread() {
		return those
	}
	return d.Chosen(key, `SELECT `+key+` FROM `+table+` WHERE `+those+` FOR UPDATE SKIP LOCKED`)
}

// Values returns the argument of AnyOf, given a slice of texts or numbers.
func (d Dialect) Values(values any) any {
	if d.engine == Postgres {
		return values
	}
	text, _ := json.Marshal(values) // it never fails
	return string(text)
}
