package clienttest

import (
	"cmp"
	"crypto/rand"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	scopeRequests  = "material-requests"
	scopeProducts  = "products"
	scopeWebhooks  = "webhooks"
	scopeEstimates = "estimates:write"
	scopeOrders    = "orders:read"

	accessTTL  = 15 * time.Minute
	refreshTTL = 14 * 24 * time.Hour
)

// sessions are the families of tokens, by what was issued.
type sessions struct {
	access    map[string]time.Time // until when
	refresh   map[string]*issued
	accessTTL time.Duration
	family    time.Duration // life of a refresh token
}

type issued struct {
	family *family
	until  time.Time
	used   bool
}

type family struct{ ended bool }

func newSessions(c Config) sessions {
	return sessions{access: map[string]time.Time{}, refresh: map[string]*issued{},
		accessTTL: cmp.Or(c.AccessTTL, accessTTL), family: cmp.Or(c.RefreshTTL, refreshTTL)}
}

type pairBody struct {
	AccessToken      string
	RefreshToken     string
	TokenType        string
	ExpiresIn        int64
	RefreshExpiresIn int64
}

func (s *sessions) issue(f *family) pairBody {
	p := pairBody{"at_" + rand.Text(), "hub_rt_" + rand.Text(), "Bearer", int64(s.accessTTL / time.Second),
		int64(s.family / time.Second)}
	s.access[p.AccessToken] = time.Now().Add(s.accessTTL)
	s.refresh[p.RefreshToken] = &issued{family: f, until: time.Now().Add(s.family)}
	return p
}

// ExpireAccessTokens ends the life of every access token issued so far: calls with them are 401.
func (s *Server) ExpireAccessTokens() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.sessions.access)
}

// EndSessions makes every refresh token issued so far useless, as a reuse or a revoke does to one session.
func (s *Server) EndSessions() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, i := range s.sessions.refresh {
		i.family.ended = true
	}
}

// Deactivate makes the API key useless and ends all sessions; access tokens live on until they expire.
func (s *Server) Deactivate() {
	s.EndSessions()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.inactive = true
}

type authError struct{ Error, ErrorDescription string }

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Cache-Control", "no-store")
	if keys := r.Header.Values("X-Api-Key"); s.inactive || len(keys) != 1 || keys[0] != s.APIKey {
		w.Header().Set("WWW-Authenticate", `ApiKey realm="supplyhub"`)
		writeJSON(w, http.StatusUnauthorized, "application/json; charset=utf-8",
			authError{"invalid_client", "The API key is missing or invalid."})
		return
	}
	writeJSON(w, http.StatusOK, "application/json; charset=utf-8", s.sessions.issue(&family{}))
}

func (s *Server) refresh(w http.ResponseWriter, r *http.Request) {
	presented := readRefreshToken(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	w.Header().Set("Cache-Control", "no-store")
	i := s.sessions.refresh[presented]
	if i == nil || i.used || i.family.ended || s.inactive || time.Now().After(i.until) {
		if i != nil && i.used {
			i.family.ended = true // the service cannot tell a thief from the owner
		}
		w.Header().Set("WWW-Authenticate", `ApiKey realm="supplyhub"`)
		writeJSON(w, http.StatusUnauthorized, "application/json; charset=utf-8",
			authError{"invalid_grant", "The refresh token is not valid, expired or already used."})
		return
	}
	i.used = true
	writeJSON(w, http.StatusOK, "application/json; charset=utf-8", s.sessions.issue(i.family))
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	presented := readRefreshToken(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.sessions.refresh[presented]; i != nil && time.Now().Before(i.until) {
		i.family.ended = true
	}
	w.WriteHeader(http.StatusNoContent)
}

// readRefreshToken returns the token in the body, "" when there is none.
func readRefreshToken(r *http.Request) string {
	body, _ := readBody[struct { // one that is refused has no token
		Token string `json:"refreshToken"`
	}](r, members("", map[string]shape{"refreshToken": name()}))
	return body.Token
}

// authorized reports whether the caller may go on. It answers 401 or 403, without a body, unless the token is good and
// has the scope.
func (s *Server) authorized(w http.ResponseWriter, r *http.Request, scope string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	presented := r.Header.Values("Authorization")
	if len(presented) == 0 || !strings.HasPrefix(presented[0], "Bearer ") {
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	token := strings.TrimPrefix(presented[0], "Bearer ")
	if until, known := s.sessions.access[token]; len(presented) > 1 || !known || !time.Now().Before(until) {
		w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	if scope != "" && !slices.Contains(s.config.Scopes, scope) {
		w.Header().Set("WWW-Authenticate", `Bearer error="insufficient_scope"`)
		w.WriteHeader(http.StatusForbidden)
		return false
	}
	return true
}

func (s *Server) ping(r *http.Request) answer {
	token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	left := time.Until(s.sessions.access[token])
	return ok(map[string]any{
		"status": "ok", "supplier": map[string]string{"id": s.SupplierID, "name": s.config.Name},
		"expires_in": max(0, int64(left/time.Second)),
	})
}
