package supplierauth_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

func TestRefresh_rotates_and_reuse_ends_that_family_and_no_other(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		key := r.supplier(nil).APIKey
		first, other := r.tokens(r.token(key)), r.tokens(r.token(key))
		second := r.tokens(r.refresh(first.RefreshToken))
		third := r.tokens(r.refresh(second.RefreshToken))
		if first.RefreshToken == second.RefreshToken || second.AccessToken == third.AccessToken {
			t.Fatal("a refresh gave the same token again")
		}
		r.refused(r.refresh(first.RefreshToken), "invalid_grant") // used twice: a thief or its owner
		r.refused(r.refresh(third.RefreshToken), "invalid_grant")
		if code := r.ping(third.AccessToken); code != http.StatusOK {
			t.Errorf("an issued access token died with its session: %d", code)
		}
		r.tokens(r.refresh(other.RefreshToken))
	})
}

func TestRefresh_of_one_token_twelve_times_at_once_over_two_replicas_succeeds_once_and_ends_the_family(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		a, b := twin(t, db, newClock())
		token := a.tokens(a.token(a.supplier(nil).APIKey)).RefreshToken
		var mu sync.Mutex
		var won []pair
		var group sync.WaitGroup
		for i := range 12 {
			group.Go(func() {
				r := []*replica{a, b}[i%2]
				w := r.refresh(token)
				mu.Lock()
				defer mu.Unlock()
				if w.Code == http.StatusOK {
					won = append(won, r.tokens(w))
				} else if w.Code != http.StatusUnauthorized {
					t.Errorf("status %d: %s", w.Code, w.Body)
				}
			})
		}
		group.Wait()
		if len(won) != 1 {
			t.Fatalf("%d of 12 refreshes succeeded", len(won))
		}
		a.refused(b.refresh(won[0].RefreshToken), "invalid_grant")
	})
}

func TestSession_ends_by_time_since_its_last_refresh(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		clock := newClock()
		r := newReplica(t, db, clock, nil)
		p := r.tokens(r.token(r.supplier(nil).APIKey))
		for range 3 { // its 14 days begin again each time
			clock.advance(supplierauth.DefaultRefreshTTL - time.Second)
			p = r.tokens(r.refresh(p.RefreshToken))
		}
		clock.advance(supplierauth.DefaultRefreshTTL)
		r.refused(r.refresh(p.RefreshToken), "invalid_grant")
		clock.advance(25 * time.Hour)
		if err := r.service.Purge(t.Context()); err != nil {
			t.Fatal(err)
		}
		var left int64
		if err := db.Reader(t.Context()).Raw(`SELECT count(*) FROM sessions`).Scan(&left).Error; err != nil || left != 0 {
			t.Errorf("%d sessions are left after the purge: %v", left, err)
		}
	})
}

func TestAccessToken_lives_as_long_as_the_supplier_s_setting(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		clock := newClock()
		r := newReplica(t, db, clock, nil)
		p := r.tokens(r.token(r.supplier(func(n *supplierauth.Supplier) {
			n.AccessTTL, n.RefreshTTL = 2*time.Minute,
				time.Hour
		}).APIKey))
		if p.ExpiresIn != 120 || p.RefreshExpiresIn != 3600 || p.TokenType != "Bearer" {
			t.Fatalf("got %+v", p)
		}
		clock.advance(2*time.Minute - time.Second)
		if code := r.ping(p.AccessToken); code != http.StatusOK {
			t.Errorf("a second before its end: %d", code)
		}
		clock.advance(time.Second)
		if code := r.ping(p.AccessToken); code != http.StatusUnauthorized {
			t.Errorf("at its end: %d", code)
		}
	})
}

func TestRevoke_ends_the_family_of_any_of_its_tokens_and_is_always_204(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		key := r.supplier(nil).APIKey
		first := r.tokens(r.token(key))
		second := r.tokens(r.refresh(first.RefreshToken))
		for _, token := range []string{first.RefreshToken, first.RefreshToken, "nonsense", ""} {
			if code := r.revoke(token); code != http.StatusNoContent {
				t.Errorf("status %d", code)
			}
		}
		for _, body := range []string{"", "{", "[]", `{"refreshToken":5}`} {
			if w := r.call(http.MethodPost, "/revoke", body); w.Code != http.StatusNoContent || w.Body.Len() != 0 {
				t.Errorf("%q: status %d, %s", body, w.Code, w.Body)
			}
		}
		r.refused(r.refresh(second.RefreshToken), "invalid_grant")
	})
}

func TestRevoke_of_an_expired_token_is_no_end_of_a_session(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		registry := prometheus.NewRegistry()
		r := newReplica(t, db, newClock(), func(d *supplierauth.Deps) { d.Registerer = registry })
		key := r.supplier(nil).APIKey
		for _, test := range []struct{ later, ended float64 }{{1, 0}, {-1, 1}} {
			tokens := r.tokens(r.token(key))
			r.clock.advance(supplierauth.DefaultRefreshTTL + time.Duration(test.later)*time.Hour)
			if code := r.revoke(tokens.RefreshToken); code != http.StatusNoContent {
				t.Errorf("status %d", code)
			}
			families, err := registry.Gather()
			if err != nil {
				t.Fatal(err)
			}
			var ended float64
			for _, family := range families {
				for _, metric := range family.GetMetric() {
					ended += metric.GetCounter().GetValue()
				}
			}
			if ended != test.ended {
				t.Errorf("%v sessions ended, want %v", ended, test.ended)
			}
		}
	})
}

func TestDeactivation_refuses_the_key_and_ends_every_session(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		s := r.supplier(nil)
		p := r.tokens(r.token(s.APIKey))
		if err := r.service.Deactivate(t.Context(), s.Supplier.ID); err != nil {
			t.Fatal(err)
		}
		r.refused(r.token(s.APIKey), "invalid_client")
		r.refused(r.refresh(p.RefreshToken), "invalid_grant")
		if err := r.service.Activate(t.Context(), s.Supplier.ID); err != nil {
			t.Fatal(err)
		}
		r.refused(r.refresh(p.RefreshToken), "invalid_grant")
		r.tokens(r.token(s.APIKey))
	})
}

func TestAPIKey_rotation_overlaps(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		clock := newClock()
		r := newReplica(t, db, clock, nil)
		s := r.supplier(nil)
		next, err := r.service.RotateAPIKey(t.Context(), s.Supplier.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		p := r.tokens(r.token(s.APIKey))
		r.tokens(r.token(next))
		clock.advance(time.Hour)
		r.refused(r.token(s.APIKey), "invalid_client")
		r.tokens(r.token(next))
		r.tokens(r.refresh(p.RefreshToken)) // its session goes on
		if _, err := r.service.RotateAPIKey(t.Context(), "sup_unknown", 0); err == nil {
			t.Error("the key of no supplier was rotated")
		}
	})
}

func TestSecrets_are_only_hashed_or_sealed_in_the_database_and_never_in_the_log(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newReplica(t, db, newClock(), nil)
		s := r.supplier(func(n *supplierauth.Supplier) { n.WebhookURL = "https://receiver.example/base/" })
		first := r.tokens(r.token(s.APIKey))
		second := r.tokens(r.refresh(first.RefreshToken))
		r.refused(r.refresh(first.RefreshToken), "invalid_grant")
		r.refused(r.token(s.APIKey+"x"), "invalid_client")
		r.ping(second.AccessToken)
		dump := dumpAll(t, db)
		if !strings.Contains(dump, s.Supplier.ID) {
			t.Fatal("the dump shows nothing")
		}
		for name, secret := range map[string]string{
			"API key": s.APIKey, "webhook secret": s.WebhookSecret, "refresh token": first.RefreshToken,
			"second refresh token": second.RefreshToken, "access token": second.AccessToken,
		} {
			for _, part := range []string{secret, secret[len(secret)-20:]} {
				if strings.Contains(dump, part) {
					t.Errorf("the %s is in the database", name)
				}
				if strings.Contains(r.logs.String(), part) {
					t.Errorf("the %s is in the log", name)
				}
			}
		}
	})
}

// dumpAll is every value of the package's tables as text, bytes as they are.
func dumpAll(t *testing.T, db *database.DB) string {
	t.Helper()
	var text strings.Builder
	for _, table := range []string{"suppliers", "supplier_api_keys", "supplier_webhook_secrets", "sessions"} {
		rows, err := db.SQL(context.WithoutCancel(t.Context())).QueryContext(t.Context(), "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		columns, err := rows.Columns()
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			values, places := make([][]byte, len(columns)), make([]any, len(columns))
			for i := range values {
				places[i] = &values[i]
			}
			if err := rows.Scan(places...); err != nil {
				t.Fatal(err)
			}
			for _, value := range values {
				text.Write(append(value, '\n'))
			}
		}
		if err := rows.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return text.String()
}

func TestReceivers_secrets_open_after_the_rotation_of_SECRETS_KEY(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		var former supplierauth.Deps
		clock := newClock()
		r := newReplica(t, db, clock, func(d *supplierauth.Deps) { former = *d })
		s := r.supplier(func(n *supplierauth.Supplier) { n.WebhookURL = "https://receiver.example/" })
		rotated := newReplica(t, db, clock, func(d *supplierauth.Deps) { d.SecretsKeys += "," + former.SecretsKeys })
		second, err := rotated.service.RotateWebhookSecret(t.Context(), s.Supplier.ID, time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		receivers, err := rotated.service.Receivers(t.Context(), []string{s.Supplier.ID, "sup_unknown"})
		if err != nil {
			t.Fatal(err)
		}
		got := receivers[s.Supplier.ID]
		if len(receivers) != 1 || got.URL != "https://receiver.example" || !got.Active || len(got.Secrets) != 2 ||
			got.Secrets[0].Text() != second || got.Secrets[1].Text() != s.WebhookSecret {
			t.Fatalf("got %d receivers, %d secrets of %s", len(receivers), len(got.Secrets), got.URL)
		}
		clock.advance(time.Hour)
		if receivers, _ := rotated.service.Receivers(t.Context(),
			[]string{s.Supplier.ID}); len(receivers[s.Supplier.ID].Secrets) != 1 {
			t.Error("the former secret signs after its overlap")
		}
		stranger := newReplica(t, db, clock, nil) // with another key: reported, and no secret
		if receivers, err := stranger.service.Receivers(t.Context(), []string{s.Supplier.ID}); err != nil ||
			len(receivers[s.Supplier.ID].Secrets) != 0 || !strings.Contains(stranger.logs.String(), "cannot be read") {
			t.Errorf("with another SECRETS_KEY: %v", err)
		}
	})
}
