package database_test

import (
	"fmt"
	"os"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// batches returns how a batch is divided.
func batches(t *testing.T, db *database.DB, suppliers ...string) (parts string) {
	t.Helper()
	err := database.BySupplier(db, suppliers, func(id string) string { return id }, func(part []string) error {
		parts += fmt.Sprint(part, db.Of(part, "supplier_id", "$1") != "")
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return parts
}

func plans(t *testing.T, db *database.DB) (mode string) {
	t.Helper()
	if err := db.From(t.Context()).Raw(`SHOW plan_cache_mode`).Scan(&mode).Error; err != nil {
		t.Fatal(err)
	}
	return mode
}

func TestSpread_one_server_takes_whole_batches_and_several_take_each_supplier_s(t *testing.T) {
	t.Parallel()
	one := databasetest.Postgres(t)
	if os.Getenv(databasetest.CitusWorkers) != "" {
		one = databasetest.EmptyPostgres(t)
	}
	db := databasetest.OpenURL(t, one, "")
	if got := batches(t, db, "b", "a", "b"); got != "[b a b] false" || plans(t, db) != "force_generic_plan" ||
		db.Spread() {
		t.Errorf("one server takes %s, by %s", got, plans(t, db))
	}
	db = databasetest.OpenURL(t, databasetest.Spread(t), "")
	if got := batches(t, db, "b", "a", "b"); got != "[a] true[b b] true" || plans(t, db) != "auto" || !db.Spread() {
		t.Errorf("several servers take %s, by %s", got, plans(t, db))
	}
	db = databasetest.OpenURL(t, "", databasetest.SQLite(t))
	if got := batches(t, db, "b", "a"); got != "[b a] false" {
		t.Errorf("SQLite takes %s", got)
	}
}
