package database_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestInstallation_has_an_id_of_its_own_that_stays(t *testing.T) {
	t.Parallel()
	postgres := func(t *testing.T) *database.DB { return raw(t, databasetest.EmptyPostgres(t), "") }
	sqlite := func(t *testing.T) *database.DB { return raw(t, "", filepath.Join(t.TempDir(), "x.db")) }
	for name, open := range map[string]func(*testing.T) *database.DB{"postgres": postgres, "sqlite": sqlite} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := map[string]bool{}
			for range 2 {
				db, before := open(t), ""
				for range 2 {
					if err := db.Migrate(t.Context()); err != nil {
						t.Fatal(err)
					}
					id, err := db.Installation(t.Context())
					if err != nil || !regexp.MustCompile(`^[0-9a-f]{32}$`).MatchString(id) {
						t.Fatalf("%q, %v", id, err)
					}
					if before != "" && id != before {
						t.Errorf("%s became %s", before, id)
					}
					before = id
				}
				seen[before] = true
			}
			if len(seen) != 2 {
				t.Errorf("two installations have %d ids", len(seen))
			}
		})
	}
}
