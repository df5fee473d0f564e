package supplierauth_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// family is a session as it ought to be.
type family struct {
	tokens  []string // all of them, the last is the current one
	ended   bool
	expires time.Time
}

// TestSessions_behave_as_their_model interleaves token, refresh, reuse, revoke, expiry and deactivation over two
// replicas.
func TestSessions_behave_as_their_model(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	clock := newClock()
	a, b := twin(t, db, clock)
	rapid.Check(t, func(rt *rapid.T) {
		supplier := a.supplier(nil)
		active := true
		var families []*family
		replicas := []*replica{a, b}
		on := func() *replica { return replicas[rapid.IntRange(0, 1).Draw(rt, "replica")] }
		some := func() *family {
			if len(families) == 0 {
				rt.Skip("no session yet")
			}
			return families[rapid.IntRange(0, len(families)-1).Draw(rt, "family")]
		}
		rt.Repeat(map[string]func(*rapid.T){
			"token": func(rt *rapid.T) {
				r := on()
				w := r.token(supplier.APIKey)
				if (w.Code == http.StatusOK) != active {
					rt.Fatalf("token: status %d of a supplier that is active: %v", w.Code, active)
				}
				if active {
					families = append(families, &family{tokens: []string{r.tokens(w).RefreshToken},
						expires: clock.now().Add(supplierauth.DefaultRefreshTTL)})
				}
			},
			"refresh": func(rt *rapid.T) {
				f, r := some(), on()
				i := rapid.IntRange(0, len(f.tokens)-1).Draw(rt, "token")
				current := i == len(f.tokens)-1
				alive := !f.ended && clock.now().Before(f.expires)
				w := r.refresh(f.tokens[i])
				if want := alive && current; (w.Code == http.StatusOK) != want {
					rt.Fatalf("refresh of token %d of %d: status %d, alive %v", i+1, len(f.tokens), w.Code, alive)
				}
				switch {
				case alive && current:
					f.tokens, f.expires = append(f.tokens, r.tokens(w).RefreshToken), clock.now().Add(supplierauth.DefaultRefreshTTL)
				case !current:
					f.ended = true
				}
			},
			"revoke": func(rt *rapid.T) {
				f := some()
				if code := on().revoke(f.tokens[rapid.IntRange(0, len(f.tokens)-1).Draw(rt,
					"token")]); code != http.StatusNoContent {
					rt.Fatalf("revoke: status %d", code)
				}
				f.ended = true
			},
			"time": func(rt *rapid.T) {
				clock.advance(time.Duration(rapid.IntRange(1, 10).Draw(rt, "days")) * 24 * time.Hour)
			},
			"switch": func(rt *rapid.T) {
				if !rapid.Bool().Draw(rt, "really") {
					return
				}
				change := a.service.Activate
				if active {
					change = a.service.Deactivate
					for _, f := range families {
						f.ended = true
					}
				}
				if err := change(t.Context(), supplier.Supplier.ID); err != nil {
					rt.Fatal(err)
				}
				active = !active
			},
			"purge": func(rt *rapid.T) {
				if err := on().service.Purge(t.Context()); err != nil {
					rt.Fatal(err)
				}
			},
		})
	})
}

func FuzzBearer(f *testing.F) {
	r := newReplica(f, databasetest.Open(f, database.SQLite), newClock(), nil)
	good := r.tokens(r.token(r.supplier(nil).APIKey)).AccessToken
	f.Add("Bearer " + good)
	f.Add("Bearer a.b.c")
	f.Add("bearer ..")
	f.Fuzz(func(t *testing.T, header string) {
		request := httptest.NewRequest(http.MethodGet, "/ping", nil)
		request.Header["Authorization"] = []string{header}
		w := httptest.NewRecorder()
		r.engine.ServeHTTP(w, request)
		if w.Code == http.StatusOK && header[len(header)-len(good):] != good {
			t.Fatalf("%q is let in", header)
		}
	})
}

func FuzzRefreshBody(f *testing.F) {
	r := newReplica(f, databasetest.Open(f, database.SQLite), newClock(), nil)
	f.Add(`{"refreshToken":"hub_rt_AAAA"}`)
	f.Add(`{"refreshToken":`)
	f.Fuzz(func(t *testing.T, body string) {
		if w := r.call(http.MethodPost, "/refresh", body); w.Code != http.StatusUnauthorized {
			t.Fatalf("%q: status %d", body, w.Code)
		}
	})
}

func BenchmarkAuthenticate(b *testing.B) {
	r := newReplica(b, databasetest.Open(b, database.SQLite), newClock(), nil)
	token := r.tokens(r.token(r.supplier(nil).APIKey)).AccessToken
	for b.Loop() {
		if code := r.ping(token); code != http.StatusOK {
			b.Fatal(code)
		}
	}
}

func BenchmarkRefresh(b *testing.B) {
	databasetest.EachB(b, func(b *testing.B, db *database.DB) {
		r := newReplica(b, db, newClock(), nil)
		token := r.tokens(r.token(r.supplier(nil).APIKey)).RefreshToken
		for b.Loop() {
			token = r.tokens(r.refresh(token)).RefreshToken
		}
	})
}
