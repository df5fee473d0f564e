// Package sqlite links the engine of the embedded default into a program that imports it; others have PostgreSQL alone.
package sqlite

import (
	"database/sql"

	"gorm.io/driver/postgres"
	"modernc.org/sqlite" // registers driver
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/supplyhub/supplyhub/internal/database"
)

// driver is the name that modernc.org/sqlite has in database/sql.
const driver = "sqlite"

func init() { //nolint:gochecknoinits // as every driver of database/sql: to import it is to link it
	database.Embed(driver, func(conn *sql.DB) database.SavingDialector {
		return dialector{postgres.Dialector{Config: &postgres.Config{Conn: conn}}}
	}, func(conn *sql.Conn, bytes int) error {
		_, err := sqlite.Limit(conn, sqlite3.SQLITE_LIMIT_LENGTH, bytes)
		return err
	})
}

// dialector is gorm's for PostgreSQL, whose quoting, $1, ON CONFLICT and RETURNING SQLite understands.
type dialector struct{ postgres.Dialector }

// Name returns gorm's name for the engine.
func (dialector) Name() string { return driver }
