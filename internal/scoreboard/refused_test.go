package scoreboard_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// stranger asks with a wrong key and returns what remains by its answer.
func stranger(t *testing.T, d *rig) string {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, "/", nil)
	r.Header.Set("svc-pulse-key", "wrong")
	w := httptest.NewRecorder()
	d.engine.ServeHTTP(w, r)
	if w.Code != http.StatusUnauthorized {
		t.Errorf("a wrong key is answered %d", w.Code)
	}
	return w.Header().Get("X-RateLimit-Remaining")
}

func TestWrong_keys_are_answered_with_the_quota_without_a_statement_each(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		clock := noon()
		d, replica := newRig(t, db, clock, 0), newRig(t, db, clock, 0)
		if got := stranger(t, d); got != "80" {
			t.Errorf("at first %s remain", got)
		}
		d.ask("")
		if got := stranger(t, d); got != "79" {
			t.Errorf("behind a request of this process %s remain, want 79", got)
		}
		replica.ask("")
		if got := stranger(t, d); got != "79" {
			t.Errorf("in the same moment %s remain: the database was asked again", got)
		}
		clock.set(clock.now().Add(time.Second))
		if got := stranger(t, d); got != "78" {
			t.Errorf("behind another replica's request %s remain a second later, want 78", got)
		}
		clock.set(clock.now().Add(24 * time.Hour))
		if got := stranger(t, d); got != "80" {
			t.Errorf("on the next day %s remain", got)
		}
	})
}

func TestWrong_keys_are_refused_while_the_database_is_away(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	clock := noon()
	d, replica := newRig(t, db, clock, 0), newRig(t, db, clock, 0)
	d.ask("")
	replica.ask("")
	if left, err := d.Remaining(t.Context()); err != nil || left["partner_b"] != 78 { // as its metrics read it
		t.Fatal(left, err)
	}
	if err := db.From(t.Context()).Exec(`ALTER TABLE scoreboard_usage RENAME TO taken_away`).Error; err != nil {
		t.Fatal(err)
	}
	clock.set(clock.now().Add(time.Minute))
	for range 3 {
		if got := stranger(t, d); got != "78" {
			t.Errorf("%s remain, want the 78 that this process read last", got)
		}
	}
}
