package database_test

import (
	"context"
	"database/sql"
	"os"
	"strings"
	"testing"
	"testing/fstest"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

const listsMigration = "0018_lists.sql"

// upToLists runs the migrations up to the lists', which fails before the statement that begins so.
func upToLists(t *testing.T, db *sql.DB, breaking string) {
	t.Helper()
	files := fstest.MapFS{}
	entries, err := os.ReadDir("migrations/postgres")
	if err != nil {
		t.Fatal(err)
	}
	for _, entry := range entries {
		text, err := os.ReadFile("migrations/postgres/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		if entry.Name() == listsMigration {
			before, _, found := strings.Cut(string(text), "\n"+breaking)
			if !found {
				t.Fatalf("no statement begins %q", breaking)
			}
			text = []byte(before + "\nSELECT 1 / 0;\n")
		}
		if entry.Name() <= listsMigration {
			files[entry.Name()] = &fstest.MapFile{Data: text}
		}
	}
	provider, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.Up(t.Context()); err == nil || !strings.Contains(err.Error(), "division by zero") {
		t.Fatalf("the interrupted migration ended with %v", err)
	}
}

// writeAsBefore writes what the version before the lists' counts does.
func writeAsBefore(ctx context.Context, db *sql.DB, i int) error {
	for _, statement := range []string{
		`WITH stored AS (INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid,
			ticket, created_at, updated_at, counted)
			SELECT 'sup_' || i % 3, i, 'enqueued', '', '', '{}', '', nextval('request_numbers'), i, i, 1, true
			FROM generate_series($1::bigint * 20, $1 * 20 + 19) AS i RETURNING 1)
		INSERT INTO status_counts SELECT 'request', 'enqueued', count(*) FROM stored`,
		`WITH taken AS (UPDATE material_requests SET status = 'estimated', counted = NOT counted
				WHERE status = 'enqueued' AND id % 7 > $1 % 7 RETURNING 1)
			INSERT INTO status_counts SELECT 'request', 'enqueued', -count(*) FROM taken`,
		`UPDATE material_requests SET status = 'selected', selected_at = $1 WHERE status = 'estimated' AND id % 5 = 0`,
		`DELETE FROM material_requests WHERE id % 11 = $1::bigint % 11`,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at)
			SELECT 'msg_1000' || i || d, i, 1, d, 'sup', i, 'pending', 1, 1, 0, i, 1
			FROM generate_series($1::bigint * 20, $1 * 20 + 19) AS i CROSS JOIN (VALUES ('own'), ('sup')) AS ds(d)`,
		`UPDATE webhook_deliveries SET status = 'delivered' WHERE uid % 5 > $1::bigint % 5`,
	} {
		if _, err := db.ExecContext(ctx, statement, i); err != nil {
			return err
		}
	}
	return nil
}

func TestMigrate_counts_the_lists_while_the_version_before_writes_and_however_often_it_was_interrupted(t *testing.T) {
	t.Parallel()
	url := databasetest.EmptyPostgres(t)
	old, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	upToLists(t, old, "CREATE TABLE IF NOT EXISTS list_changes")
	for i, breaking := range []string{
		"CREATE OR REPLACE TRIGGER note_ordered", "INSERT INTO list_counts",
		"DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_listed",
		"DROP INDEX CONCURRENTLY IF EXISTS webhook_deliveries_open",
	} {
		if err := writeAsBefore(t.Context(), old, i); err != nil {
			t.Fatal(err)
		}
		upToLists(t, old, breaking)
	}
	migrated, writing := make(chan struct{}), make(chan error, 1)
	go func() {
		for i := 10; ; i++ {
			if err := writeAsBefore(t.Context(), old, i); err != nil {
				writing <- err
				return
			}
			select {
			case <-migrated:
				writing <- nil
				return
			default:
			}
		}
	}()
	db := raw(t, url, "")
	databasetest.CountsAgree(t, db)
	err = db.Migrate(t.Context())
	close(migrated)
	if failed := <-writing; err != nil || failed != nil {
		t.Fatal(err, failed)
	}
}
