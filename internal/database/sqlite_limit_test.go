package database_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestSQLite_ends_a_statement_when_its_context_ends(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := database.Column[int64](ctx, db.ReaderSQL(ctx),
		`WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n`)
	if err == nil || ctx.Err() == nil {
		t.Errorf("a statement that never ends gives %v", err)
	}
}

func TestSQLite_has_no_column_of_which_only_the_name_is_known(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	_, err := database.Column[string](t.Context(), db.ReaderSQL(t.Context()), `SELECT "perc_bateria" FROM (SELECT 1 AS x)`)
	if err == nil || !strings.Contains(err.Error(), "no such column") {
		t.Errorf("a column that is not there is read with %v", err)
	}
}
