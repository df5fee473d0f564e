package database_test

import (
	"slices"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// asOwner are the functions that run as the schema's owner for each caller: partitions are made and dropped by
// who owns the tables. A trigger is never one: each writer may note what it writes.
var asOwner = []string{
	"advance_webhook_partitions", "delete_webhook_table", "drop_webhook_partition",
}

func TestFunctions_of_the_schema_run_with_a_pinned_path_and_as_the_owner_only_where_they_must(t *testing.T) {
	t.Parallel()
	for name, address := range map[string]string{"one server": databasetest.Postgres(t),
		"spread": databasetest.Spread(t)} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db := databasetest.OpenURL(t, address, "")
			type function struct {
				name            string
				definer, public bool
				path            string
			}
			list, err := database.Query(t.Context(), db.SQL(t.Context()), `SELECT proname, prosecdef,
					has_function_privilege('public', oid, 'EXECUTE'),
					coalesce((SELECT setting FROM unnest(proconfig) AS setting WHERE setting LIKE 'search_path=%'), '')
				FROM pg_proc p WHERE pronamespace = current_schema()::regnamespace AND proname NOT LIKE 'create_distributed_%'
					AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.objid = p.oid AND d.deptype = 'e')`, nil,
				func(f *function) []any { return []any{&f.name, &f.definer, &f.public, &f.path} })
			if err != nil {
				t.Fatal(err)
			}
			var definers []string
			for _, f := range list {
				if f.path != "search_path=public, pg_temp" {
					t.Errorf("%s finds what a role puts before the schema's own: %q", f.name, f.path)
				}
				if f.definer {
					definers = append(definers, f.name)
				}
				if f.definer && f.public {
					t.Errorf("everybody may call %s, which runs as the owner", f.name)
				}
			}
			slices.Sort(definers)
			if !slices.Equal(definers, asOwner) {
				t.Errorf("as the owner run %v", definers)
			}
		})
	}
}
