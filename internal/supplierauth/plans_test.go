package supplierauth_test

import (
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// Plans are made once a connection, the first ones over empty tables.
func TestPlans_of_a_young_table_look_sessions_up_by_their_handle(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	for _, state := range []string{``, `ANALYZE sessions`, `VACUUM sessions`} {
		if err := db.From(t.Context()).Exec(state).Error; state != "" && err != nil {
			t.Fatal(err)
		}
		plan := databasetest.Plan(t, db, `SELECT id FROM sessions WHERE handle_hash = $1 AND current_hash = $2
			AND expires_at > $3`,
			[]byte("a"), []byte("b"), int64(1))
		if !strings.Contains(plan, "sessions_handle_hash_key") {
			t.Errorf("after %q:\n%s", state, plan)
		}
	}
}
