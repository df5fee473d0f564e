package supplierauth_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// clock is a settable time.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func newClock() *clock { return &clock{at: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// logs is what was logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// replica is a service behind its routes.
type replica struct {
	tb      testing.TB
	db      *database.DB
	service *supplierauth.Service
	engine  *gin.Engine
	clock   *clock
	logs    *logs
}

func generated(tb testing.TB, generate func() (string, error)) string {
	tb.Helper()
	value, err := generate()
	if err != nil {
		tb.Fatal(err)
	}
	return value
}

// newReplica builds a service; change may change what it is built from.
func newReplica(tb testing.TB, db *database.DB, clock *clock, change func(*supplierauth.Deps)) *replica {
	tb.Helper()
	r := &replica{tb: tb, db: db, clock: clock, logs: &logs{}}
	deps := supplierauth.Deps{
		DB: db, Log: slog.New(slog.NewJSONHandler(r.logs, nil)), Now: clock.now, Latest: clock.now,
		Local: clock.now, Issuer: "supplyhub",
		Audience:    "supplyhub-api",
		SigningKeys: generated(tb, supplierauth.GenerateSigningKey),
		SecretsKeys: generated(tb, supplierauth.GenerateSecretsKey),
		Callable:    func(context.Context, string) error { return nil },
		Moved:       func(context.Context, string, string) error { return nil },
	}
	if change != nil {
		change(&deps)
	}
	var err error
	if r.service, err = supplierauth.New(deps); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(r.service.Close)
	r.engine = httpapi.NewEngine(httpapi.EngineConfig{Log: deps.Log})
	s := supplierauth.Handlers{Service: r.service}
	r.engine.POST("/token", httpapi.HandleWith(s.Token, supplierauth.RenderError))
	r.engine.POST("/refresh", httpapi.HandleWith(s.Refresh, supplierauth.RenderError))
	r.engine.POST("/revoke", httpapi.HandleWith(s.Revoke, supplierauth.RenderError))
	r.engine.GET("/ping", s.Bearer(""), httpapi.Handle(s.Ping))
	r.engine.GET("/jwks", httpapi.Handle(s.JWKS))
	r.engine.GET("/orders", s.Bearer(caller.ScopeOrdersRead), func(c *gin.Context) { c.Status(http.StatusOK) })
	return r
}

// twin is a second replica with the same keys.
func twin(tb testing.TB, db *database.DB, clock *clock) (a, b *replica) {
	tb.Helper()
	var keys supplierauth.Deps
	a = newReplica(tb, db, clock, func(d *supplierauth.Deps) { keys = *d })
	return a,
		newReplica(tb, db, clock, func(d *supplierauth.Deps) {
			d.SigningKeys, d.SecretsKeys = keys.SigningKeys,
				keys.SecretsKeys
		})
}

func (r *replica) supplier(change func(*supplierauth.Supplier)) supplierauth.Created {
	r.tb.Helper()
	n := supplierauth.Supplier{Name: "Acme", AccessTTL: supplierauth.DefaultAccessTTL,
		RefreshTTL: supplierauth.DefaultRefreshTTL, Scopes: supplierauth.DefaultScopes()}
	if change != nil {
		change(&n)
	}
	created, err := r.service.CreateSupplier(r.tb.Context(), n)
	if err != nil {
		r.tb.Fatal(err)
	}
	return created
}

func (r *replica) call(method, path, body string, headers ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	r.engine.ServeHTTP(w, request)
	return w
}

type pair struct {
	AccessToken, RefreshToken, TokenType string
	ExpiresIn, RefreshExpiresIn          int64
}

func (r *replica) tokens(w *httptest.ResponseRecorder) pair {
	r.tb.Helper()
	if w.Code != http.StatusOK {
		r.tb.Fatalf("status %d: %s", w.Code, w.Body)
	}
	var p pair
	if err := json.Unmarshal(w.Body.Bytes(), &p); err != nil {
		r.tb.Fatal(err)
	}
	return p
}

func (r *replica) token(apiKey string) *httptest.ResponseRecorder {
	return r.call(http.MethodPost, "/token", "", "x-api-key", apiKey)
}

func (r *replica) refresh(token string) *httptest.ResponseRecorder {
	body, _ := json.Marshal(map[string]string{"refreshToken": token})
	return r.call(http.MethodPost, "/refresh", string(body), "Content-Type", "application/json")
}

func (r *replica) revoke(token string) int {
	body, _ := json.Marshal(map[string]string{"refreshToken": token})
	return r.call(http.MethodPost, "/revoke", string(body), "Content-Type", "application/json").Code
}

func (r *replica) ping(access string) int {
	return r.call(http.MethodGet, "/ping", "", "Authorization", "Bearer "+access).Code
}

// refused fails unless the answer is the 401 with the code.
func (r *replica) refused(w *httptest.ResponseRecorder, code string) {
	r.tb.Helper()
	var body map[string]string
	if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || w.Code != http.StatusUnauthorized ||
		body["Error"] != code || body["ErrorDescription"] == "" || len(body) != 2 {
		r.tb.Fatalf("status %d: %s, want %s", w.Code, w.Body, code)
	}
}
