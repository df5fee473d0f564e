package supplierauth_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

func TestRateLimit_holds_each_supplier_to_its_own_bucket(t *testing.T) {
	t.Parallel()
	clock := newClock()
	r := newReplica(t, databasetest.Open(t, database.SQLite), clock,
		func(d *supplierauth.Deps) { d.RequestsPerSecond = 3 })
	a := r.tokens(r.token(r.supplier(nil).APIKey)).AccessToken
	b := r.tokens(r.token(r.supplier(nil).APIKey)).AccessToken
	clock.advance(time.Second) // the exchange was counted too
	for range 3 {
		if code := r.ping(a); code != http.StatusOK {
			t.Fatalf("status %d within the limit", code)
		}
	}
	w := r.call(http.MethodGet, "/ping", "", "Authorization", "Bearer "+a)
	if w.Code != http.StatusTooManyRequests || w.Header().Get("Retry-After") != "1" ||
		!strings.Contains(w.Body.String(), "3 requests a second") {
		t.Errorf("over the limit: %d %v %s", w.Code, w.Header(), w.Body)
	}
	if code := r.ping(b); code != http.StatusOK {
		t.Errorf("another supplier is held up: %d", code)
	}
	clock.advance(time.Second / 3)
	if r.ping(a) != http.StatusOK || r.ping(a) != http.StatusTooManyRequests {
		t.Error("a third of a second is worth one request")
	}
}

func TestJump_of_the_databases_clock_refuses_no_caller(t *testing.T) {
	t.Parallel()
	for name, jump := range map[string]time.Duration{"ahead": 10 * time.Minute, "back": -10 * time.Minute} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			db, stored, local := databasetest.Open(t, database.SQLite), newClock(), newClock()
			before := stored.now()
			r := newReplica(t, db, stored, func(d *supplierauth.Deps) {
				d.RequestsPerSecond, d.Local = 3, local.now
				d.Latest = func() time.Time { return before.Add(max(jump, 0)) }
			})
			token := r.tokens(r.token(r.supplier(nil).APIKey)).AccessToken
			stored.advance(jump)
			for range 5 { // more than the bucket holds, and each time what is filled again
				for range 2 {
					if code := r.ping(token); code != http.StatusOK {
						t.Fatalf("status %d", code)
					}
				}
				local.advance(time.Second)
			}
		})
	}
}
