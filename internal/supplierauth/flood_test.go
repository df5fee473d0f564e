package supplierauth_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// A client that exchanges its key or refreshes at each call is held to the limit before anything is written.
func TestFlood_of_token_and_refresh_is_counted_once_the_supplier_is_known(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		clock := newClock()
		r := newReplica(t, db, clock, func(d *supplierauth.Deps) { d.RequestsPerSecond = 5 })
		thief, other := r.supplier(nil), r.supplier(nil)
		p := r.tokens(r.token(thief.APIKey))
		for what, call := range map[string]func() int{
			"token": func() int { return r.token(thief.APIKey).Code },
			"refresh": func() int {
				w := r.refresh(p.RefreshToken)
				p = r.again(w, p)
				return w.Code
			},
		} {
			clock.advance(time.Second)
			before := r.sessions(thief.Supplier.ID)
			answers := map[int]int{}
			for range 40 {
				answers[call()]++
			}
			if answers[http.StatusOK] != 5 || answers[http.StatusTooManyRequests] != 35 {
				t.Errorf("%s: %v, want 5 of 40 answered", what, answers)
			}
			if more := r.sessions(thief.Supplier.ID) - before; more > 5 {
				t.Errorf("%s: %d new sessions", what, more)
			}
		}
		r.tokens(r.token(other.APIKey)) // another supplier is not held up
		r.refused(r.token("hub_sk_unknown"), "invalid_client")
		if code := r.revoke(p.RefreshToken); code != http.StatusNoContent {
			t.Errorf("a session could not be ended: %d", code)
		}
		clock.advance(time.Second)
		r.refused(r.refresh(p.RefreshToken), "invalid_grant")
	})
}

// again returns the pair of the answer, or the one before when it was refused.
func (r *replica) again(w *httptest.ResponseRecorder, before pair) pair {
	if w.Code != http.StatusOK {
		return before
	}
	return r.tokens(w)
}

// sessions counts a supplier's rows: one that ends is deleted.
func (r *replica) sessions(supplierID string) int { return r.count("sessions", supplierID) }

func (r *replica) count(table, supplierID string) (n int) {
	r.tb.Helper()
	if err := r.db.From(r.tb.Context()).Raw(`SELECT count(*) FROM `+table+` WHERE supplier_id = ?`,
		supplierID).Scan(&n).Error; err != nil {
		r.tb.Fatal(err)
	}
	return n
}

// fill inserts so many live sessions of a supplier, each begun a microsecond after the one before.
func (r *replica) fill(supplierID string, n int) {
	r.tb.Helper()
	at := r.clock.now().UnixMicro()
	expires := r.clock.now().Add(supplierauth.DefaultRefreshTTL).UnixMicro()
	numbers, hash := `generate_series(1, %d) AS n(i)`, `decode(lpad(to_hex(i), 64, '0'), 'hex')`
	if r.db.Engine() == database.SQLite {
		numbers = `(WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT i FROM n) AS n`
		hash = `CAST(printf('%%064d', i) AS blob)`
	}
	err := r.db.From(r.tb.Context()).Exec(fmt.Sprintf(`
		INSERT INTO sessions (id, supplier_id, handle_hash, current_hash, created_at, last_used_at, expires_at, expiry_day)
		SELECT 'ses_' || i, '%s', `+hash+`, `+hash+`, %d + i, %[2]d + i, %d, %[3]d / 86400000000 FROM `+numbers,
		supplierID, at-int64(n)-1, expires, n)).Error
	if err != nil {
		r.tb.Fatal(err)
	}
}

func TestFlood_of_sessions_ends_the_oldest_of_a_thousand(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a, b := twin(t, db, newClock())
		s, other := a.supplier(nil), a.supplier(nil)
		oldest := a.tokens(a.token(s.APIKey))
		untouched := a.tokens(a.token(other.APIKey))
		second := a.tokens(b.token(s.APIKey))
		a.clock.advance(time.Minute)
		a.fill(s.Supplier.ID, 997)
		ended := a.tokens(a.token(s.APIKey)) // the thousandth
		a.revoke(ended.RefreshToken)
		a.tokens(b.token(s.APIKey)) // the thousandth again: one that has ended does not count
		oldest = a.tokens(b.refresh(oldest.RefreshToken))
		for i := range 3 { // over both replicas
			a.tokens([]*replica{a, b}[i%2].token(s.APIKey))
		}
		a.refused(a.refresh(oldest.RefreshToken), "invalid_grant")
		a.refused(a.refresh(second.RefreshToken), "invalid_grant")
		a.tokens(b.refresh(untouched.RefreshToken))
		if n := a.sessions(s.Supplier.ID); n != 1000 {
			t.Errorf("%d rows, want 1,000 live sessions", n)
		}
	})
}

// Such a call once began a session and ended it again, and with it the oldest of a thousand.
func TestToken_with_a_body_that_is_too_large_begins_no_session_and_ends_none(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		s := r.supplier(nil)
		oldest := r.tokens(r.token(s.APIKey))
		r.clock.advance(time.Minute)
		r.fill(s.Supplier.ID, 999)
		exchange := func(key, body string, chunked bool) *httptest.ResponseRecorder {
			var sent io.Reader = strings.NewReader(body)
			if chunked { // its length is not announced
				sent = struct{ io.Reader }{sent}
			}
			request := httptest.NewRequest(http.MethodPost, "/token", sent)
			request.Header.Set("X-Api-Key", key)
			w := httptest.NewRecorder()
			r.engine.ServeHTTP(w, request)
			return w
		}
		for _, size := range []int{16<<10 + 1, 1<<20 + 1} {
			for _, chunked := range []bool{false, true} {
				body := strings.Repeat(" ", size)
				if w := exchange(s.APIKey, body, chunked); w.Code != http.StatusRequestEntityTooLarge {
					t.Errorf("%d bytes, in chunks %t: %d %.100s", size, chunked, w.Code, w.Body)
				}
				r.refused(exchange(s.APIKey+"x", body, chunked), "invalid_client")
			}
		}
		if n := r.sessions(s.Supplier.ID); n != 1000 {
			t.Errorf("%d sessions, want the 1,000 from before", n)
		}
		r.tokens(r.refresh(oldest.RefreshToken))
		for _, chunked := range []bool{false, true} {
			r.tokens(exchange(s.APIKey, strings.Repeat(" ", 16<<10), chunked))
		}
	})
}

// Ending millions of sessions once took longer than a statement may, and the supplier stayed active.
func TestFlood_of_sessions_does_not_delay_a_deactivation(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	r := newReplica(t, db, newClock(), nil)
	s := r.supplier(nil)
	p := r.tokens(r.token(s.APIKey))
	r.fill(s.Supplier.ID, 2500)
	held := db.From(t.Context()).Begin() // a batch waits
	if err := held.Exec(`SELECT id FROM sessions WHERE id = 'ses_2400' FOR UPDATE`).Error; err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		err := r.service.Deactivate(t.Context(), s.Supplier.ID)
		for errs.IsPassing(err) { // it waited for as long as the database lets it
			err = r.service.Deactivate(t.Context(), s.Supplier.ID)
		}
		done <- err
	}()
	for r.token(s.APIKey).Code != http.StatusUnauthorized {
		if t.Context().Err() != nil {
			t.Fatal("the key is taken until all sessions have ended")
		}
	}
	r.refused(r.refresh(p.RefreshToken), "invalid_grant")
	if err := held.Rollback().Error; err != nil {
		t.Fatal(err)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if n := r.sessions(s.Supplier.ID); n != 0 {
		t.Errorf("%d sessions are live", n)
	}
}

func TestDeactivation_that_was_cut_off_is_finished_before_a_reactivation(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		s := r.supplier(nil)
		p := r.tokens(r.token(s.APIKey))
		r.fill(s.Supplier.ID, 2500)
		if err := db.From(t.Context()).Exec(`UPDATE suppliers SET active = ? WHERE id = ?`, false,
			s.Supplier.ID).Error; err != nil { // the process died after the first step
			t.Fatal(err)
		}
		for range 2 { // of an active one it ends nothing
			if err := r.service.Activate(t.Context(), s.Supplier.ID); err != nil {
				t.Fatal(err)
			}
			r.refused(r.refresh(p.RefreshToken), "invalid_grant")
			r.tokens(r.token(s.APIKey))
		}
		if n := r.sessions(s.Supplier.ID); n != 2 {
			t.Errorf("%d sessions are live, want the two new ones", n)
		}
	})
}

// Rows of what has ended were read by each later call of their supplier, and held everybody's writes up on SQLite.
func TestSessions_and_secrets_that_have_ended_leave_nothing_that_later_calls_read(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		table string
		most  int
		do    func(*replica, supplierauth.Created)
	}{
		"sessions that are revoked": {"sessions", 1, func(r *replica, s supplierauth.Created) {
			r.revoke(r.tokens(r.token(s.APIKey)).RefreshToken)
		}},
		"sessions of which a used token is presented": {"sessions", 1, func(r *replica, s supplierauth.Created) {
			used := r.tokens(r.token(s.APIKey))
			r.tokens(r.refresh(used.RefreshToken))
			r.refused(r.refresh(used.RefreshToken), "invalid_grant")
		}},
		"sessions that the operator ends": {"sessions", 1, func(r *replica, s supplierauth.Created) {
			r.tokens(r.token(s.APIKey))
			if _, err := r.service.RevokeSessions(r.tb.Context(), s.Supplier.ID); err != nil {
				r.tb.Fatal(err)
			}
		}},
		"sessions that expire": {"sessions", 2, func(r *replica, s supplierauth.Created) {
			r.tokens(r.token(s.APIKey))
			r.clock.advance(supplierauth.DefaultRefreshTTL)
		}},
		"secrets that are rotated without an overlap": {"supplier_webhook_secrets", 2,
			func(r *replica, s supplierauth.Created) { r.rotateSecret(s.Supplier.ID, 0) }},
		"secrets that are rotated with one": {"supplier_webhook_secrets", 6,
			func(r *replica, s supplierauth.Created) { r.rotateSecret(s.Supplier.ID, time.Hour) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				r := newReplica(t, db, newClock(), nil)
				s := r.supplier(nil)
				for range 10 {
					test.do(r, s)
				}
				if n := r.count(test.table, s.Supplier.ID); n > test.most {
					t.Errorf("%d rows after 10, want at most %d", n, test.most)
				}
			})
		})
	}
}

func (r *replica) rotateSecret(supplierID string, overlap time.Duration) {
	r.tb.Helper()
	if _, err := r.service.RotateWebhookSecret(r.tb.Context(), supplierID, overlap); err != nil {
		r.tb.Fatal(err)
	}
}

func TestSessions_that_have_expired_are_purged_a_day_later(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		s := r.supplier(nil)
		r.tokens(r.token(s.APIKey))
		r.clock.advance(2 * time.Hour)
		kept := r.tokens(r.token(s.APIKey))
		for _, want := range []int{2, 1} {
			r.clock.advance(supplierauth.DefaultRefreshTTL - time.Hour)
			kept = r.tokens(r.refresh(kept.RefreshToken))
			if err := r.service.Purge(t.Context()); err != nil {
				t.Fatal(err)
			}
			if n := r.sessions(s.Supplier.ID); n != want {
				t.Errorf("%d rows, want %d", n, want)
			}
		}
	})
}

// SQLite has one writer: there nothing is held.
func TestSession_that_is_refreshed_as_it_expires_is_not_ended_by_another_one_s_beginning(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	r := newReplica(t, db, newClock(), nil)
	s := r.supplier(nil)
	p := r.tokens(r.token(s.APIKey))
	renewed := r.clock.now().Add(2 * supplierauth.DefaultRefreshTTL).UnixMicro()
	r.clock.advance(supplierauth.DefaultRefreshTTL)
	refresh := db.From(t.Context()).Begin()
	if err := refresh.Exec(`UPDATE sessions SET expires_at = ?`, renewed).Error; err != nil {
		t.Fatal(err)
	}
	begun := make(chan pair)
	go func() { begun <- r.tokens(r.token(s.APIKey)) }()
	wait.Until(t, "the beginning of the other waits", func() bool {
		var n int
		return db.From(t.Context()).Raw(`SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
			AND datname = current_database()`).Scan(&n).Error == nil && n > 0
	})
	if err := refresh.Commit().Error; err != nil {
		t.Fatal(err)
	}
	for _, one := range []pair{p, <-begun} {
		r.tokens(r.refresh(one.RefreshToken))
	}
}
