package acceptance

import (
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

const (
	tokenPath   = "/api/external-auth/token"
	refreshPath = "/api/external-auth/refresh"
	revokePath  = "/api/external-auth/revoke"
)

// wantAuthError fails unless the answer is the 401 envelope of the specification with exactly two members.
func wantAuthError(t *testing.T, a apptest.Answer, code string) {
	t.Helper()
	want(t, a, http.StatusUnauthorized)
	body := apptest.Decode[map[string]string](t, a)
	if len(body) != 2 || body["Error"] != code || body["ErrorDescription"] == "" {
		t.Fatalf("body %s, want {Error: %s, ErrorDescription}", a.Body, code)
	}
	if a.Header.Get("Cache-Control") != "no-store" {
		t.Fatalf("Cache-Control %q, want no-store", a.Header.Get("Cache-Control"))
	}
}

func refresh(t *testing.T, h *apptest.Hub, api int, token string) apptest.Answer {
	t.Helper()
	return h.DoAt(t, api, http.MethodPost, refreshPath, object{"refreshToken": token})
}

func mustRefresh(t *testing.T, h *apptest.Hub, token string) apptest.Tokens {
	t.Helper()
	a := refresh(t, h, 0, token)
	want(t, a, http.StatusOK)
	return apptest.Decode[apptest.Tokens](t, a)
}

func revoke(t *testing.T, h *apptest.Hub, token string) {
	t.Helper()
	wantEmpty(t, h.Do(t, http.MethodPost, revokePath, object{"refreshToken": token}), http.StatusNoContent)
}

func claims(t *testing.T, token string) (header, body map[string]any) {
	t.Helper()
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		t.Fatalf("the access token has %d segments", len(parts))
	}
	for i, into := range []*map[string]any{&header, &body} {
		text, err := base64.RawURLEncoding.DecodeString(parts[i])
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(text, into); err != nil {
			t.Fatal(err)
		}
	}
	return header, body
}

func tokenRules(t *testing.T, h *apptest.Hub) {
	rule(t, "an API key is exchanged for a token pair of 15 minutes and 14 days", func(t *testing.T) {
		tokens := h.Supplier(t).Token(t)
		if tokens.TokenType != "Bearer" || tokens.ExpiresIn != 900 || tokens.RefreshExpiresIn != 14*24*3600 {
			t.Fatalf("got %s, %d, %d", tokens.TokenType, tokens.ExpiresIn, tokens.RefreshExpiresIn)
		}
		wantStatus(t, h, tokens.AccessToken, http.StatusOK)
	})
	rule(t, "the answer must not be stored", func(t *testing.T) {
		a := h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", h.Supplier(t).APIKey)
		if a.Header.Get("Cache-Control") != "no-store" {
			t.Fatalf("Cache-Control %q", a.Header.Get("Cache-Control"))
		}
	})
	rule(t, "the access token carries the claims and header of the contract", func(t *testing.T) {
		s := h.Supplier(t)
		header, body := claims(t, s.AccessToken())
		if header["typ"] != "at+jwt" || header["kid"] == "" {
			t.Errorf("header %v", header)
		}
		if body["iss"] != "supplyhub" || body["aud"] != "supplyhub-api" && !isList(body["aud"], "supplyhub-api") ||
			body["sub"] != s.ID {
			t.Errorf("claims %v", body)
		}
		if body["scope"] != "material-requests products webhooks" {
			t.Errorf("scope %q", body["scope"])
		}
		iat, nbf, exp := body["iat"].(float64), body["nbf"].(float64), body["exp"].(float64)
		if iat-nbf != 30 || exp-iat != 900 {
			t.Errorf("iat %v, nbf %v, exp %v", iat, nbf, exp)
		}
		for _, name := range []string{"sid", "jti"} {
			if text, _ := body[name].(string); text == "" {
				t.Errorf("claim %s is missing", name)
			}
		}
	})
	rule(t, "a missing, wrong, changed, truncated or repeated key is invalid_client", func(t *testing.T) {
		key := h.Supplier(t).APIKey
		last := "A"
		if strings.HasSuffix(key, last) {
			last = "B"
		}
		for _, wrong := range []string{"", "nonsense", key[:len(key)-1], key[:len(key)-1] + last, key + "x",
			strings.ToLower(key) + "X", key + ", " + key, strings.Repeat("k", 5000)} {
			wantAuthError(t, h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", wrong), "invalid_client")
		}
		r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, h.URL(0, tokenPath), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header["X-Api-Key"] = []string{key, key}
		response, err := h.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusUnauthorized {
			t.Fatalf("a key that is sent twice: %d", response.StatusCode)
		}
	})
	rule(t, "a body says nothing; over 16 KiB it is 413, of a wrong key 401", func(t *testing.T) {
		s := h.Supplier(t)
		long := strings.Repeat(" ", 16<<10+1)
		for body, status := range map[string]int{"": 200, "{": 200, long[1:]: 200, long: 413,
			strings.Repeat(" ", 2<<20): 413} {
			want(t, h.Do(t, http.MethodPost, tokenPath, body, "x-api-key", s.APIKey), status)
		}
		wantProblem(t, h.Do(t, http.MethodPost, tokenPath, long, "x-api-key", s.APIKey), 413)
		wantAuthError(t, h.Do(t, http.MethodPost, tokenPath, long, "x-api-key", "nonsense"), "invalid_client")
	})
	rule(t, "a query that does not parse is a 400 once the caller is known, and uses no token up", func(t *testing.T) {
		s := h.Supplier(t)
		body := object{"refreshToken": s.RefreshToken()}
		wantProblem(t, h.Do(t, http.MethodPost, tokenPath+"?a=%zz", nil, "x-api-key", s.APIKey), 400, "a")
		wantAuthError(t, h.Do(t, http.MethodPost, tokenPath+"?a=%zz", nil, "x-api-key", s.APIKey+"x"), "invalid_client")
		wantProblem(t, h.Do(t, http.MethodPost, refreshPath+"?a=%zz", body), 400, "a")
		wantAuthError(t, h.Do(t, http.MethodPost, refreshPath+"?a=%zz", object{"refreshToken": "x"}), "invalid_grant")
		next := mustRefresh(t, h, s.RefreshToken())
		wantAuthError(t, h.Do(t, http.MethodPost, refreshPath+"?a=%zz", body), "invalid_grant") // it ends the session
		wantAuthError(t, refresh(t, h, 0, next.RefreshToken), "invalid_grant")
		wantProblem(t, h.Do(t, http.MethodGet, "/.well-known/jwks.json?%zz", nil), 400, "%zz")
		wantEmpty(t, h.Do(t, http.MethodPost, revokePath+"?a=%zz", body), http.StatusNoContent)
	})
	rule(t, "a supplier may hold several sessions", func(t *testing.T) {
		s := h.Supplier(t)
		other := s.Token(t)
		mustRefresh(t, h, s.RefreshToken())
		mustRefresh(t, h, other.RefreshToken)
	})
	rule(t, "the lifetimes are configurable per supplier", func(t *testing.T) {
		tokens := h.Supplier(t, "--access-ttl", "5m", "--refresh-ttl", "48h").Token(t)
		if tokens.ExpiresIn != 300 || tokens.RefreshExpiresIn != 48*3600 {
			t.Fatalf("got %d and %d", tokens.ExpiresIn, tokens.RefreshExpiresIn)
		}
	})
	rule(t, "a deactivated supplier gets no tokens, its sessions end, its access tokens live on, "+
		"activation lets it in again", func(t *testing.T) {
		s := h.Supplier(t)
		apptest.MustCommand[object](t, h, "supplier", "deactivate", s.ID)
		wantAuthError(t, h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", s.APIKey), "invalid_client")
		wantAuthError(t, refresh(t, h, 0, s.RefreshToken()), "invalid_grant")
		wantStatus(t, h, s.AccessToken(), http.StatusOK)
		apptest.MustCommand[object](t, h, "supplier", "activate", s.ID)
		wantAuthError(t, refresh(t, h, 0, s.RefreshToken()), "invalid_grant")
		s.Token(t)
	})
	rule(t, "a rotated key works for the overlap, without overlap not at all", func(t *testing.T) {
		s := h.Supplier(t)
		second := apptest.MustCommand[apptest.Supplier](t, h, "supplier", "rotate-key", s.ID)
		for _, key := range []string{s.APIKey, second.APIKey} {
			want(t, h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", key), http.StatusOK)
		}
		third := apptest.MustCommand[apptest.Supplier](t, h, "supplier", "rotate-key", s.ID, "--overlap", "0s")
		wantAuthError(t, h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", second.APIKey), "invalid_client")
		want(t, h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", third.APIKey), http.StatusOK)
	})
}

func isList(v any, only string) bool {
	list, ok := v.([]any)
	return ok && len(list) == 1 && list[0] == only
}

// wantStatus fails unless ping with this access token has the status.
func wantStatus(t *testing.T, h *apptest.Hub, accessToken string, status int) {
	t.Helper()
	want(t, h.Do(t, http.MethodGet, ping, nil, "Authorization", "Bearer "+accessToken), status)
}

func refreshRules(t *testing.T, h *apptest.Hub) {
	rule(t, "a refresh gives a new pair and revokes the presented token", func(t *testing.T) {
		s := h.Supplier(t)
		next := mustRefresh(t, h, s.RefreshToken())
		if next.RefreshToken == s.RefreshToken() || next.AccessToken == s.AccessToken() {
			t.Fatal("the pair is not new")
		}
		wantStatus(t, h, next.AccessToken, http.StatusOK)
		wantAuthError(t, refresh(t, h, 0, s.RefreshToken()), "invalid_grant")
	})
	rule(t, "a used token ends its session and no other; access tokens live on", func(t *testing.T) {
		s := h.Supplier(t)
		other := s.Token(t)
		second := mustRefresh(t, h, s.RefreshToken())
		third := mustRefresh(t, h, second.RefreshToken)
		wantAuthError(t, refresh(t, h, 0, s.RefreshToken()), "invalid_grant")
		for _, token := range []string{s.RefreshToken(), second.RefreshToken, third.RefreshToken} {
			wantAuthError(t, refresh(t, h, 0, token), "invalid_grant")
		}
		wantStatus(t, h, third.AccessToken, http.StatusOK)
		mustRefresh(t, h, other.RefreshToken)
	})
	rule(t, "of 12 concurrent refreshes with one token over all apis exactly one wins and the family ends",
		func(t *testing.T) {
			for range 5 {
				s := h.Supplier(t)
				answers := make([]apptest.Answer, 12)
				together(len(answers), func(i int) { answers[i] = refresh(t, h, i, s.RefreshToken()) })
				winners := []apptest.Answer{}
				for _, a := range answers {
					if a.Status == http.StatusOK {
						winners = append(winners, a)
						continue
					}
					wantAuthError(t, a, "invalid_grant")
				}
				if len(winners) != 1 {
					t.Fatalf("%d winners, want 1", len(winners))
				}
				wantAuthError(t, refresh(t, h, 0, apptest.Decode[apptest.Tokens](t, winners[0]).RefreshToken), "invalid_grant")
			}
		})
	rule(t, "an invalid body is invalid_grant and consumes nothing", func(t *testing.T) {
		s := h.Supplier(t)
		token := s.RefreshToken()
		for _, body := range []string{"", "null", "[]", `"x"`, "1", "{", "\ufeff{}", `{}`, `{"refreshToken":null}`,
			`{"refreshToken":1}`, `{"refreshToken":""}`,
			`{"RefreshToken":"` + token + `"}`, `{"refreshToken":"` + token + `","refreshToken":"` + token +
				`"}`, `{"refreshToken":"` + token + `"} x`,
			`{"refreshToken":"` + token + "\\u0000" + `"}`, `{"refreshToken":"` + s.AccessToken() + `"}`, `{"refreshToken":"` +
				s.APIKey + `"}`, `{"refreshToken":"` + strings.Repeat("x", 2<<20) + `"}`} {
			wantAuthError(t, h.Do(t, http.MethodPost, refreshPath, body), "invalid_grant")
		}
		valid := object{"refreshToken": token}
		wantAuthError(t, h.Do(t, http.MethodPost, refreshPath, valid, "Content-Type", "text/plain"), "invalid_grant")
		wantAuthError(t, h.Do(t, http.MethodPost, refreshPath, valid, "Content-Encoding", "gzip"), "invalid_grant")
		mustRefresh(t, h, token)
	})
	rule(t, "unknown members are ignored and a content type may be absent", func(t *testing.T) {
		s := h.Supplier(t)
		want(t, h.Do(t, http.MethodPost, refreshPath, object{"refreshToken": s.RefreshToken(), "other": 1}, "Content-Type",
			""), http.StatusOK)
	})
	rule(t, "an expired refresh token is invalid_grant", func(t *testing.T) {
		s := h.Supplier(t, "--refresh-ttl", "1s")
		wait.Until(t, "the token has expired", func() bool {
			_, body := claims(t, s.AccessToken())
			return time.Now().Unix() > int64(body["iat"].(float64))+1
		})
		wantAuthError(t, refresh(t, h, 0, s.RefreshToken()), "invalid_grant")
	})
}

// together calls fn(0) to fn(n-1) at the same moment and waits for all.
func together(n int, fn func(i int)) {
	var group sync.WaitGroup
	start := make(chan struct{})
	for i := range n {
		group.Go(func() {
			<-start
			fn(i)
		})
	}
	close(start)
	group.Wait()
}

func revokeRules(t *testing.T, h *apptest.Hub) {
	rule(t, "the current token ends the session and the access token lives on", func(t *testing.T) {
		s := h.Supplier(t)
		revoke(t, h, s.RefreshToken())
		wantAuthError(t, refresh(t, h, 0, s.RefreshToken()), "invalid_grant")
		wantStatus(t, h, s.AccessToken(), http.StatusOK)
		revoke(t, h, s.RefreshToken())
	})
	rule(t, "a used token of a live session ends it too", func(t *testing.T) {
		s := h.Supplier(t)
		next := mustRefresh(t, h, s.RefreshToken())
		revoke(t, h, s.RefreshToken())
		wantAuthError(t, refresh(t, h, 0, next.RefreshToken), "invalid_grant")
	})
	rule(t, "it is 204 with no body whatever is sent", func(t *testing.T) {
		for _, body := range []any{nil, "", "null", "{", "{}", `{"refreshToken":1}`, `{"refreshToken":"unknown"}`,
			strings.Repeat("x", 2<<20)} {
			a := h.Do(t, http.MethodPost, revokePath, body)
			wantEmpty(t, a, http.StatusNoContent)
			if a.Header.Get("Content-Type") != "" {
				t.Errorf("a 204 has the content type %q", a.Header.Get("Content-Type"))
			}
		}
		wantEmpty(t, h.Do(t, http.MethodPost, revokePath, "{}", "Content-Type", "text/plain"), http.StatusNoContent)
		wantEmpty(t, h.Do(t, http.MethodPost, revokePath, "{}", "Content-Encoding", "gzip"), http.StatusNoContent)
	})
	rule(t, "what refresh would not read changes nothing", func(t *testing.T) {
		s := h.Supplier(t)
		body := `{"refreshToken":"` + s.RefreshToken() + `"}`
		wantEmpty(t, h.Do(t, http.MethodPost, revokePath, body, "Content-Type", "text/plain"), http.StatusNoContent)
		wantEmpty(t, h.Do(t, http.MethodPost, revokePath, body, "Content-Encoding", "gzip"), http.StatusNoContent)
		wantEmpty(t, h.Do(t, http.MethodPost, revokePath, body+strings.Repeat(" ", 16<<10)), http.StatusNoContent)
		mustRefresh(t, h, s.RefreshToken())
	})
	rule(t, "a body over 16 KiB is 401 at refresh and its token stays unused", func(t *testing.T) {
		s := h.Supplier(t)
		body := `{"refreshToken":"` + s.RefreshToken() + `"}`
		wantAuthError(t, h.Do(t, http.MethodPost, refreshPath, body+strings.Repeat(" ", 16<<10)), "invalid_grant")
		want(t, h.Do(t, http.MethodPost, refreshPath, body+strings.Repeat(" ", 16<<10-len(body))), http.StatusOK)
	})
	rule(t, "a revoke that races a refresh leaves no live token", func(t *testing.T) {
		s := h.Supplier(t)
		for range 10 {
			tokens := s.Token(t)
			var refreshed apptest.Answer
			together(2, func(i int) {
				if i == 0 {
					revoke(t, h, tokens.RefreshToken)
					return
				}
				refreshed = refresh(t, h, 1, tokens.RefreshToken)
			})
			if refreshed.Status == http.StatusOK {
				wantAuthError(t, refresh(t, h, 0, apptest.Decode[apptest.Tokens](t, refreshed).RefreshToken), "invalid_grant")
			}
			wantAuthError(t, refresh(t, h, 0, tokens.RefreshToken), "invalid_grant")
		}
	})
}

func bearerRules(t *testing.T, h *apptest.Hub) {
	rule(t, "ping returns the supplier and the seconds left", func(t *testing.T) {
		s := h.Supplier(t)
		a := s.Do(t, http.MethodGet, ping, nil)
		want(t, a, http.StatusOK)
		body := apptest.Decode[struct {
			Status    string
			Supplier  struct{ ID, Name string }
			ExpiresIn int64 `json:"expires_in"`
		}](t, a)
		if body.Status != "ok" || body.Supplier.ID != s.ID || body.Supplier.Name != t.Name() || body.ExpiresIn < 800 ||
			body.ExpiresIn > 900 {
			t.Fatalf("got %s", a.Body)
		}
	})
	rule(t, "a missing token is 401 with an empty body and WWW-Authenticate: Bearer", func(t *testing.T) {
		a := h.Do(t, http.MethodGet, ping, nil)
		wantEmpty(t, a, http.StatusUnauthorized)
		if a.Header.Get("WWW-Authenticate") != "Bearer" {
			t.Fatalf("WWW-Authenticate %q", a.Header.Get("WWW-Authenticate"))
		}
	})
	rule(t, "a bad token is 401 with an empty body and error=invalid_token", func(t *testing.T) {
		s := h.Supplier(t)
		token := s.AccessToken()
		head, rest, _ := strings.Cut(token, ".")
		none := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none","typ":"at+jwt"}`))
		for _, bad := range []string{"x", token + "A", token[:len(token)-2], none + "." + rest, head + "." + rest + ".x",
			s.RefreshToken(), s.APIKey, strings.Repeat(".", 10000)} {
			a := h.Do(t, http.MethodGet, ping, nil, "Authorization", "Bearer "+bad)
			wantEmpty(t, a, http.StatusUnauthorized)
			if a.Header.Get("WWW-Authenticate") != `Bearer error="invalid_token"` {
				t.Fatalf("WWW-Authenticate %q", a.Header.Get("WWW-Authenticate"))
			}
		}
	})
	rule(t, "the scheme's letter case does not matter, another scheme is 401", func(t *testing.T) {
		token := h.Supplier(t).AccessToken()
		for scheme, status := range map[string]int{"bearer": 200, "BEARER": 200, "Basic": 401, "Token": 401} {
			want(t, h.Do(t, http.MethodGet, ping, nil, "Authorization", scheme+" "+token), status)
		}
	})
	rule(t, "an expired token is 401", func(t *testing.T) {
		s := h.Supplier(t, "--access-ttl", "1s")
		wait.Until(t, "the token has expired", func() bool {
			return s.Do(t, http.MethodGet, ping, nil).Status == http.StatusUnauthorized
		})
	})
	rule(t, "a token without the route's scope is 403 with an empty body", func(t *testing.T) {
		s := h.Supplier(t, "--scopes", "products")
		wantEmpty(t, s.Do(t, http.MethodGet, "/orders", nil), http.StatusForbidden)
		wantEmpty(t, s.Do(t, http.MethodPost, requests, "{"), http.StatusForbidden)
		wantEmpty(t, h.Supplier(t).Do(t, http.MethodGet, "/orders", nil), http.StatusForbidden)
		want(t, h.Supplier(t, "--scopes", "orders:read").Do(t, http.MethodGet, "/orders", nil), http.StatusOK)
	})
	rule(t, "the verifying keys are published", func(t *testing.T) {
		a := h.Do(t, http.MethodGet, "/.well-known/jwks.json", nil)
		want(t, a, http.StatusOK)
		keys := apptest.Decode[struct{ Keys []map[string]string }](t, a).Keys
		header, _ := claims(t, h.Supplier(t).AccessToken())
		if len(keys) != 1 || keys[0]["kid"] != header["kid"] || keys[0]["d"] != "" {
			t.Fatalf("keys %v, the token's kid is %v", keys, header["kid"])
		}
	})
}
