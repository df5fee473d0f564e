package acceptance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestSchema_is_migrated_by_serve_and_migrate_alone(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	h.Env["DATABASE_URL"] = databasetest.EmptyPostgres(t)
	next := filepath.Join(t.TempDir(), "next.sql")
	if err := os.WriteFile(next, []byte(`INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM goose_db_version`), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(what, why string, args ...string) {
		t.Helper()
		if out, errOut, code := h.Command(t, args...); code != 1 || !strings.Contains(errOut, why) {
			t.Errorf("%s: exit code %d, printed %q and %q, want 1 and %q", what, code, out, errOut, why)
		}
	}
	refused("an empty database", "`api migrate`", "supplier", "list")
	if _, errOut, code := h.Command(t, "migrate"); code != 0 {
		t.Fatalf("migrate: exit code %d, %s", code, errOut)
	}
	if _, errOut, code := h.Command(t, "supplier", "list"); code != 0 {
		t.Fatalf("the schema of this build: exit code %d, %s", code, errOut)
	}
	databasetest.Script(t, h.Env["DATABASE_URL"], next)
	refused("the schema of the next version", "newer", "supplier", "list")
	if api := h.Run("api", nil); !strings.Contains(api.Log(), "the schema is the next version's") {
		t.Errorf("the log does not say that the schema is newer:\n%s", api.Log())
	}
	databasetest.Script(t, h.Env["DATABASE_URL"], next)
	refused("serve on a later schema", "newer", "serve")
	refused("migrate on a later schema", "newer", "migrate")
}
