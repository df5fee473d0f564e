package databasetest

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

// CitusWorkers is the variable with the addresses of Citus' workers, between commas. When it is set, the server that
// Environment names is their coordinator, and databases of Postgres and Service are spread by deployments/citus.sql.
const CitusWorkers = "SUPPLYHUB_TEST_CITUS_WORKERS"

const testShards = 4 // of each table: a database with the default of 32 takes seconds to make

// Service returns the address of a database for processes that a test starts: an empty one, which they migrate, or one
// that is spread.
func Service(tb testing.TB) string {
	tb.Helper()
	if os.Getenv(CitusWorkers) == "" {
		return EmptyPostgres(tb)
	}
	return Postgres(tb)
}

// spread makes the migrated database at the address one of Citus'.
func spread(tb testing.TB, address string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), adminTimeout)
	defer cancel()
	drop, err := cluster.Spread(ctx, address, os.Getenv(CitusWorkers), citusScript(), testShards)
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
		defer cancel()
		if drop != nil && drop(ctx) != nil {
			tb.Error("the test database could not be dropped on every worker")
		}
	})
	if err != nil {
		tb.Fatalf("spread the test database: %v", err)
	}
}

// Spread is Postgres with the tables spread. Where there is no Citus it is one server that the service takes for
// several: statements for these are right on one too.
func Spread(tb testing.TB) string {
	tb.Helper()
	address := Postgres(tb)
	if os.Getenv(CitusWorkers) == "" {
		ctx, cancel := context.WithTimeout(tb.Context(), adminTimeout)
		defer cancel()
		if err := cluster.Execute(ctx, address, asCitus); err != nil {
			tb.Fatal(err)
		}
		Script(tb, address, citusScript())
	}
	return address
}

// asCitus makes what deployments/citus.sql calls, and what it leaves behind.
const asCitus = `CREATE TABLE pg_dist_partition (logicalrelid regclass);
	CREATE FUNCTION create_distributed_table(name regclass, key text, colocate_with text DEFAULT '') RETURNS void
	LANGUAGE sql AS 'INSERT INTO pg_dist_partition VALUES (name)'`

func citusScript() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..", "..", "deployments", "citus.sql")
}
