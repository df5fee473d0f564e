// Package sqlite links the engine of the embedded default into a program that imports it; others have PostgreSQL alone.
package sqlite

import (
	"database/sql"

	"github.com/glebarez/sqlite"
	"gorm.io/gorm"

	"github.com/supplyhub/supplyhub/internal/database"
)

func init() { //nolint:gochecknoinits // as every driver of database/sql: to import it is to link it
	database.Embed(sqlite.DriverName, func(conn *sql.DB) gorm.Dialector { return sqlite.Dialector{Conn: conn} })
}
