package database_test

import (
	"context"
	"database/sql"
	"os"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"

	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// before0020 makes a database as the version before partitions left it.
func before0020(t *testing.T, db *sql.DB) {
	t.Helper()
	provider, err := goose.NewProvider(goose.DialectPostgres, db, os.DirFS("migrations/postgres"),
		goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), 19); err != nil {
		t.Fatal(err)
	}
}

// writeEvents writes the events and attempts of what writeAsBefore does.
func writeEvents(ctx context.Context, db *sql.DB, i int) error {
	for _, statement := range []string{
		`INSERT INTO webhook_events (uid, round, trace_id, body, created_at)
			SELECT i, 1, '', '', 1 FROM generate_series($1::bigint * 20, $1 * 20 + 19) AS i`,
		`INSERT INTO webhook_attempts (delivery_id, number, started_at)
			SELECT 'msg_1000' || i || 'own', 1, 1 FROM generate_series($1::bigint * 20, $1 * 20 + 19) AS i`,
	} {
		if _, err := db.ExecContext(ctx, statement, i); err != nil {
			return err
		}
	}
	return writeAsBefore(ctx, db, i)
}

func TestMigrate_makes_partitions_while_the_version_before_writes_and_a_reader_takes_long(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), databasetest.EmptyPostgres(t)
	old, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer old.Close()
	before0020(t, old)
	for _, right := range []string{`GRANT DELETE ON webhook_deliveries TO CURRENT_USER`,
		`GRANT SELECT, UPDATE (status, series) ON webhook_deliveries TO PUBLIC`} {
		run(t, old, right)
	}
	for i := range 20 {
		if err := writeEvents(ctx, old, i); err != nil {
			t.Fatal(err)
		}
	}
	reader, err := old.BeginTx(ctx, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := reader.ExecContext(ctx, `SELECT FROM webhook_deliveries LIMIT 1`); err != nil {
		t.Fatal(err)
	}
	migrated, written := make(chan error, 1), 20
	db := raw(t, url, "")
	databasetest.CountsAgree(t, db)
	go func() { migrated <- db.Migrate(ctx) }()
	for last := 0; ; written++ {
		if err := writeEvents(ctx, old, written); err != nil {
			t.Fatal(err)
		}
		var parted bool
		err := old.QueryRowContext(ctx, `SELECT relkind = 'p' FROM pg_class WHERE relname = 'webhook_events'`).Scan(&parted)
		if err != nil {
			t.Fatal(err)
		}
		if parted && last == 0 { // the deliveries' turn, which the reader keeps from it
			last = written
		}
		if last > 0 && written == last+20 {
			_ = reader.Rollback()
		}
		if last > 0 && written > last+20 && len(migrated) > 0 {
			break
		}
	}
	if err := <-migrated; err != nil {
		t.Fatal(err)
	}
	for range 20 {
		written++
		if err := writeEvents(ctx, old, written); err != nil {
			t.Fatal(err)
		}
	}
	var got string
	err = old.QueryRowContext(ctx, `SELECT (SELECT count(*) FROM webhook_events) - $1 * 20
			|| ' ' || (SELECT count(*) FROM webhook_attempts) - $1 * 20
			|| ' ' || (SELECT count(*) FROM webhook_deliveries) - $1 * 40
			|| ' ' || (SELECT string_agg(relkind, '' ORDER BY relname) FROM pg_class WHERE relname IN
				('webhook_events', 'webhook_events_0', 'webhook_deliveries', 'webhook_deliveries_0', 'webhook_attempts'))
			|| ' ' || (SELECT bool_and(indisvalid)::text || count(*) FROM pg_index
				WHERE indrelid = 'webhook_deliveries'::regclass)
			|| ' ' || (SELECT count(*) FROM pg_constraint WHERE conname = 'before_partitions')
			|| ' ' || (SELECT relacl::text LIKE '%=r/%' FROM pg_class WHERE relname = 'webhook_deliveries')
			|| ' ' || (SELECT string_agg(attname, ',' ORDER BY attname) FROM pg_attribute
				WHERE attrelid = 'webhook_deliveries'::regclass AND attacl::text LIKE '%=w/%')
			|| ' ' || (SELECT count(*) FROM pg_trigger WHERE tgrelid = 'webhook_deliveries'::regclass)`,
		written+1).Scan(&got)
	if want := "0 0 0 pprpr true5 0 true series,status 6"; err != nil || got != want {
		t.Errorf("%s, want %s: %v", got, want, err)
	}
}
