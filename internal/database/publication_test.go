package database_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func texts(t *testing.T, db *database.DB, query string) []string {
	t.Helper()
	list, err := database.Column[string](t.Context(), db.SQL(t.Context()), query)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func TestPublication_for_all_tables_lets_rows_of_every_table_be_changed(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	for range 2 { // a partition is made, and opened
		exec(t.Context(), t, db, fmt.Sprintf(`SELECT advance_webhook_partitions(%d, 1)`,
			time.Now().AddDate(0, 0, 2).UnixMicro()))
	}
	exec(t.Context(), t, db, `CREATE PUBLICATION everything FOR ALL TABLES`)
	tables := texts(t, db, `SELECT schemaname || '.' || quote_ident(tablename) FROM pg_publication_tables`)
	if !slices.ContainsFunc(tables, func(name string) bool { return strings.HasPrefix(name, "public.webhook_events_") }) ||
		len(tables) < 30 {
		t.Fatalf("published are %v", tables)
	}
	undo := errors.New("undo")
	for _, table := range tables {
		column := texts(t, db, `SELECT quote_ident(attname) FROM pg_attribute
			WHERE attrelid = '`+table+`'::regclass AND attnum > 0 AND attidentity = '' ORDER BY attnum LIMIT 1`)[0]
		for _, statement := range []string{`UPDATE ` + table + ` SET ` + column + ` = ` + column, `DELETE FROM ` + table} {
			err := db.InTx(t.Context(), "test", func(ctx context.Context) error {
				return errors.Join(db.From(ctx).Exec(statement).Error, undo)
			})
			if !errors.Is(err, undo) || strings.Contains(err.Error(), "identity") {
				t.Errorf("%s: %v", statement, err)
			}
		}
	}
}

func TestFunctions_look_in_their_own_schema_alone_and_at_temporary_tables_last(t *testing.T) {
	t.Parallel()
	for name, schema := range map[string]string{"the usual schema": "public", "another one": `"Hub 1"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url := databasetest.EmptyPostgres(t)
			exec(t.Context(), t, raw(t, url, ""), `DO $do$ BEGIN
				EXECUTE 'CREATE SCHEMA IF NOT EXISTS `+schema+`';
				EXECUTE format('ALTER DATABASE %I SET search_path = `+schema+`', current_database());
			END $do$`)
			db := raw(t, url, "")
			if err := db.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			paths := texts(t, db, `SELECT p.oid::regprocedure || ': ' || coalesce((SELECT setting
					FROM unnest(p.proconfig) AS setting WHERE setting LIKE 'search_path=%'), 'none')
				FROM pg_proc p WHERE pronamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'suppliers'::regclass)`)
			if len(paths) < 9 {
				t.Fatalf("only %d functions are there: %v", len(paths), paths)
			}
			for _, path := range paths {
				if !strings.HasSuffix(path, ": search_path="+schema+", pg_temp") {
					t.Error(path)
				}
			}
		})
	}
}

// TestTriggers_count_the_records_of_loaders_with_another_search_path writes as pg_restore --data-only does, and as
// a loader with tables of the same names.
func TestTriggers_count_the_records_of_loaders_with_another_search_path(t *testing.T) {
	t.Parallel()
	url := databasetest.Postgres(t)
	for name, before := range map[string]string{
		"an empty one":                    `SET search_path = ''`,
		"a schema with tables of its own": `CREATE SCHEMA etl; CREATE TABLE etl.tracker_days (); SET search_path = etl`,
		"temporary tables of the same names": `CREATE TEMPORARY TABLE tracker_versions ();
			CREATE TEMPORARY TABLE tracker_days ()`,
	} {
		conn, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close(context.WithoutCancel(t.Context()))
		if _, err := conn.Exec(t.Context(), before, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatal(err)
		}
		for _, step := range []struct {
			what, statement string
			versions, days  []int64
		}{
			{"COPY", `COPY public.tracker_records (client_number, dt_carga, imei) FROM STDIN`, []int64{1}, []int64{2, 1}},
			{"UPDATE", `UPDATE public.tracker_records SET dt_carga = '2026-11-21'`, []int64{2}, []int64{3}},
			{"DELETE", `DELETE FROM public.tracker_records`, []int64{3}, nil},
			{"TRUNCATE", `TRUNCATE public.tracker_records, public.tracker_versions, public.tracker_days`, nil, nil},
		} {
			rows := "7\t2026-11-20\t1\n7\t2026-11-20\t2\n7\t2026-11-21\t3\n"
			if step.what == "COPY" {
				_, err = conn.PgConn().CopyFrom(t.Context(), strings.NewReader(rows), step.statement)
			} else {
				_, err = conn.Exec(t.Context(), step.statement)
			}
			if err != nil {
				t.Fatalf("%s: %s: %v", name, step.what, err)
			}
			for query, want := range map[string][]int64{
				`SELECT version FROM public.tracker_versions`:               step.versions,
				`SELECT records FROM public.tracker_days ORDER BY dt_carga`: step.days,
			} {
				found, err := conn.Query(t.Context(), query)
				if err != nil {
					t.Fatal(err)
				}
				got, err := pgx.CollectRows(found, pgx.RowTo[int64])
				if diff := cmp.Diff(want, got); err != nil || diff != "" && len(want)+len(got) > 0 {
					t.Errorf("%s: %s: %s (-want +got): %v\n%s", name, step.what, query, err, diff)
				}
			}
		}
	}
}
