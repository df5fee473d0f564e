package database_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

// parts lists what a migrated database has: "table column" for each column, in order, and "index name" for each index
// but those of keys. goose's own tables and the partitions are not in it.
var parts = map[database.Engine]string{
	database.Postgres: `(SELECT c.relname || ' ' || a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
			AND a.attnum > 0 AND NOT a.attisdropped AND c.relname NOT IN ('schema_versions', 'goose_lock')
			ORDER BY attnum)
		UNION ALL SELECT 'index ' || c.relname FROM pg_class c JOIN pg_index i ON i.indexrelid = c.oid
		WHERE c.relnamespace = current_schema()::regnamespace AND NOT c.relispartition
			AND NOT EXISTS (SELECT FROM pg_constraint k WHERE k.conindid = c.oid)`,
	database.SQLite: `SELECT t.name || ' ' || c.name FROM sqlite_master t, pragma_table_info(t.name) c
		WHERE t.type = 'table' AND t.name NOT IN ('schema_versions', 'sqlite_sequence')
		UNION ALL SELECT 'index ' || name FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL`,
}

var (
	made = regexp.MustCompile(`(?ms)^CREATE (?:TABLE (\w+) \(\n(.*?)\n\)|(?:UNIQUE )?INDEX (\w+))|` +
		`^ALTER TABLE (\w+)(.*?);`)
	column = regexp.MustCompile(`(?m)^    ([a-z]\w*) `)
	added  = regexp.MustCompile(`ADD COLUMN (\w+)`)
)

// named lists the parts that the migrations' text names.
func named(t *testing.T, engine database.Engine) (list []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("migrations", string(engine), "*.sql"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range made.FindAllStringSubmatch(string(text), -1) {
			if m[3] != "" {
				list = append(list, "index "+m[3])
			}
			for _, c := range slices.Concat(column.FindAllStringSubmatch(m[2], -1), added.FindAllStringSubmatch(m[5], -1)) {
				list = append(list, m[1]+m[4]+" "+c[1])
			}
		}
	}
	return list
}

// TestSchema_is_what_its_text_says_on_both_engines keeps the schemas for `make schema` in the directory that
// SUPPLYHUB_TEST_SCHEMA names.
func TestSchema_is_what_its_text_says_on_both_engines(t *testing.T) {
	t.Parallel()
	url := databasetest.Postgres(t)
	both := map[database.Engine][]string{}
	for engine, db := range map[database.Engine]*database.DB{database.Postgres: databasetest.OpenURL(t, url, ""),
		database.SQLite: databasetest.Open(t, database.SQLite)} {
		list, err := database.Column[string](t.Context(), db.SQL(t.Context()), parts[engine])
		if err != nil {
			t.Fatal(err)
		}
		text := named(t, engine)
		slices.SortStableFunc(text, byTable)
		slices.SortStableFunc(list, byTable)
		if diff := cmp.Diff(text, list); diff != "" {
			t.Errorf("%s (-written +there):\n%s", engine, diff)
		}
		both[engine] = slices.DeleteFunc(list, onlyOf(engine))
		if dir := os.Getenv("SUPPLYHUB_TEST_SCHEMA"); dir != "" {
			keep(t, db, url, filepath.Join(dir, string(engine)+".sql"))
		}
	}
	if diff := cmp.Diff(both[database.Postgres], both[database.SQLite]); diff != "" {
		t.Errorf("the engines differ (-PostgreSQL +SQLite):\n%s", diff)
	}
}

// byTable compares the columns' tables, whose columns are in their order, and the indexes' names.
func byTable(a, b string) int {
	key := func(part string) string {
		table, _, _ := strings.Cut(part, " ")
		if table == "index" {
			return part
		}
		return table
	}
	return strings.Compare(key(a), key(b))
}

// onlyOf reports whether a part is of no other engine: partitions are PostgreSQL's, and the table of sequences
// SQLite's.
func onlyOf(engine database.Engine) func(part string) bool {
	table := map[database.Engine]string{database.Postgres: "webhook_partitions ", database.SQLite: "sequences "}[engine]
	return func(part string) bool { return strings.HasPrefix(part, table) }
}

// keep writes the schema to the file: PostgreSQL's by pg_dump, and SQLite's as it keeps it.
func keep(t *testing.T, db *database.DB, url, file string) {
	t.Helper()
	if db.Engine() == database.Postgres {
		if err := cluster.Run(t.Context(), "pg_dump", "--schema-only", "--no-owner", "--file="+file, url); err != nil {
			t.Fatal(err)
		}
		return
	}
	statements, err := database.Column[string](t.Context(), db.SQL(t.Context()),
		`SELECT sql FROM sqlite_master WHERE sql IS NOT NULL ORDER BY rowid`)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.Join(statements, ";\n\n")+";\n"), 0o600); err != nil {
		t.Fatal(err)
	}
}
