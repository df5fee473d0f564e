// Package clienttest is a fake of the service for the tests of those who call it: a real HTTP server in memory with the
// rules that a supplier meets. Tokens expire, rotate and are ended by reuse; bodies are checked with every violation
// named; requests become estimated a moment after they were made; a receiver gets real signed calls.
//
// It leaves some things out: it forgets everything with the test, estimates are made up, a webhook call is tried once
// (what the service would try again is dead at once and can be redelivered), and any http or https receiver is allowed.
package clienttest

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Config changes what the fake is like. The zero value is a service as it comes.
type Config struct {
	Name       string        // of the supplier; "Test supplier" by default
	Scopes     []string      // material-requests, products and webhooks by default
	AccessTTL  time.Duration // 15 minutes by default
	RefreshTTL time.Duration // 14 days by default
}

// Server is a fake service with one supplier.
type Server struct {
	URL        string // empty when the server was made by New
	APIKey     string // of the supplier
	SupplierID string

	config Config
	mux    *http.ServeMux

	mu         sync.Mutex
	work       sync.WaitGroup // estimations and webhook calls in flight
	sessions   sessions
	requests   map[int64]*request
	order      []int64 // ids, oldest first
	selected   []int64 // ids, in the order of their selection
	products   map[string]*product
	receiver   receiver
	deliveries []*delivery // oldest first
	held       bool
	inactive   bool
	calls      []string
	intercept  func(http.ResponseWriter, *http.Request) bool
}

// Start runs a fake service on a port of its own until the test ends.
func Start(tb testing.TB, config Config) *Server {
	tb.Helper()
	s := New(config)
	server := httptest.NewServer(s)
	s.URL = server.URL
	tb.Cleanup(func() {
		server.Close()
		s.work.Wait()
	})
	return s
}

// New returns a fake service that listens nowhere: it is an http.Handler. Client calls it in memory, so that it works
// inside testing/synctest too, where hours pass in no time.
func New(config Config) *Server {
	config.Name = cmp.Or(config.Name, "Test supplier")
	if config.Scopes == nil {
		config.Scopes = []string{scopeRequests, scopeProducts, scopeWebhooks}
	}
	s := &Server{
		config: config, APIKey: "hub_sk_" + rand.Text(), SupplierID: "sup_" + strings.ToLower(rand.Text()[:16]),
		requests: map[int64]*request{}, products: map[string]*product{}, sessions: newSessions(config),
	}
	s.receiver.secrets = []secret{{Secret: webhook.NewSecret(), created: time.Now()}}
	s.mux = s.routes()
	return s
}

// Client returns a client of the supplier.
func (s *Server) Client() *client.Client {
	config := client.Config{BaseURL: s.URL, APIKey: s.APIKey}
	if s.URL == "" {
		config.BaseURL, config.HTTP = "http://supplyhub.test", &http.Client{Transport: inMemory{s}}
	}
	c, err := client.New(config)
	if err != nil {
		panic("clienttest: " + err.Error()) // the address and the key are our own
	}
	return c
}

// inMemory calls the handler without a network.
type inMemory struct{ handler http.Handler }

func (m inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	answer := httptest.NewRecorder()
	m.handler.ServeHTTP(answer, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	response := answer.Result()
	response.Request = r
	return response, nil
}

// WebhookSecret returns the secret that signs the calls to the supplier's receiver, the newest while it is rotated.
func (s *Server) WebhookSecret() webhook.Secret {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.receiver.secrets[0].Secret
}

// Intercept lets answer see every call first; when it returns true it has answered. So a test makes the service fail.
// nil ends that.
func (s *Server) Intercept(answer func(http.ResponseWriter, *http.Request) bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.intercept = answer
}

// FailNext answers the next n calls, whatever they are, with a problem of the status, and with Retry-After unless that
// is 0. It takes the place of what Intercept was given.
func (s *Server) FailNext(n, status int, retryAfter time.Duration) {
	var mu sync.Mutex
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if n--; n < 0 {
			return false
		}
		answer{status: status, detail: "The test wants this to fail.", retryAfter: retryAfter}.write(w)
		return true
	})
}

// Calls returns the method and path of every call so far, such as "POST /api/material-requests".
func (s *Server) Calls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// Count returns how many calls of that method and path there were.
func (s *Server) Count(call string) int {
	n := 0
	for _, c := range s.Calls() {
		if c == call {
			n++
		}
	}
	return n
}

// Wait returns when no estimation and no webhook call is in flight.
func (s *Server) Wait() { s.work.Wait() }

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	id := r.Header.Get("X-Request-Id")
	if id == "" {
		id = strings.ToLower(rand.Text())
	}
	w.Header().Set("X-Request-Id", id)
	w.Header().Set("X-Content-Type-Options", "nosniff")
	s.mu.Lock()
	s.calls = append(s.calls, r.Method+" "+r.URL.Path)
	intercept := s.intercept
	s.mu.Unlock()
	if intercept != nil && intercept(w, r) {
		return
	}
	if _, pattern := s.mux.Handler(r); pattern == "" {
		s.unknown(w, r)
		return
	}
	s.mux.ServeHTTP(w, r)
}

// unknown answers 405 where another method would do, else 404.
func (s *Server) unknown(w http.ResponseWriter, r *http.Request) {
	probe := httptest.NewRecorder()
	s.mux.ServeHTTP(probe, r)
	if probe.Code == http.StatusMethodNotAllowed {
		allow := probe.Header().Get("Allow")
		w.Header().Set("Allow", allow)
		writeProblem(w, http.StatusMethodNotAllowed, "This resource takes "+allow+".", nil)
		return
	}
	writeProblem(w, http.StatusNotFound, "There is no such resource.", nil)
}

func (s *Server) routes() *http.ServeMux {
	own := selfService{s}
	mux := http.NewServeMux()
	mux.HandleFunc("POST /api/external-auth/token", s.token)
	mux.HandleFunc("POST /api/external-auth/refresh", s.refresh)
	mux.HandleFunc("POST /api/external-auth/revoke", s.revoke)
	for pattern, route := range map[string]struct {
		scope  string
		handle func(*http.Request) answer
	}{
		"GET /api/external/ping":                              {"", s.ping},
		"POST /api/material-requests":                         {scopeRequests, s.createRequest},
		"GET /api/material-requests":                          {scopeRequests, s.listRequests},
		"GET /api/material-requests/{id}":                     {scopeRequests, s.getRequest},
		"POST /api/material-requests/{id}/re-estimate":        {scopeRequests, s.reestimate},
		"PATCH /api/material-requests/{id}/selected-estimate": {scopeRequests, s.selectEstimate},
		"POST /api/material-requests/{id}/delivery-estimates": {scopeEstimates, s.receiveEstimates},
		"GET /orders":                                 {scopeOrders, s.listOrders},
		"POST /api/products/sync":                     {scopeProducts, s.syncProduct},
		"GET /api/webhook-receiver":                   {scopeWebhooks, own.getReceiver},
		"PUT /api/webhook-receiver":                   {scopeWebhooks, own.putReceiver},
		"DELETE /api/webhook-receiver":                {scopeWebhooks, own.deleteReceiver},
		"POST /api/webhook-receiver/pause":            {scopeWebhooks, own.pause},
		"POST /api/webhook-receiver/resume":           {scopeWebhooks, own.resume},
		"POST /api/webhook-receiver/test":             {scopeWebhooks, own.testReceiver},
		"POST /api/webhook-receiver/rotate-secret":    {scopeWebhooks, own.rotateSecret},
		"GET /api/webhook-deliveries":                 {scopeWebhooks, s.listDeliveries},
		"GET /api/webhook-deliveries/{id}":            {scopeWebhooks, s.getDelivery},
		"POST /api/webhook-deliveries/{id}/redeliver": {scopeWebhooks, s.redeliver},
		"POST /api/webhook-deliveries/redeliver":      {scopeWebhooks, s.recover},
		"GET /api/webhook-event-types":                {scopeWebhooks, own.eventTypes},
		"POST /api/portal-sessions":                   {scopeWebhooks, own.portalSession},
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if s.authorized(w, r, route.scope) {
				s.mu.Lock() // a handler gives it back while it waits
				a := func() answer { defer s.mu.Unlock(); return route.handle(r).encoded() }()
				a.write(w)
			}
		})
	}
	return mux
}

// answer is a body with its status; problems and bodies of their own are made by the functions below.
type answer struct {
	status     int
	body       any
	detail     string
	violations []violation
	retryAfter time.Duration
	secret     bool // the body is for the caller alone
}

func ok(body any) answer { return answer{status: http.StatusOK, body: body} }

func refuse(status int, detail string, violations ...violation) answer {
	return answer{status: status, detail: detail, violations: violations}
}

// encoded returns the answer with its body as text: others may change what it shows once the lock is given back.
func (a answer) encoded() answer {
	if a.body != nil {
		a.body = json.RawMessage(encode(a.body))
	}
	return a
}

func (a answer) write(w http.ResponseWriter) {
	if a.retryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int((a.retryAfter+time.Second-1)/time.Second)))
	}
	if a.secret {
		w.Header().Set("Cache-Control", "no-store")
	}
	switch {
	case a.detail != "":
		writeProblem(w, a.status, a.detail, a.violations)
	case a.body == nil:
		w.WriteHeader(a.status)
	default:
		writeJSON(w, a.status, "application/json; charset=utf-8", a.body)
	}
}

type problem struct {
	Type   string      `json:"type"`
	Title  string      `json:"title"`
	Status int         `json:"status"`
	Detail string      `json:"detail"`
	Errors []violation `json:"errors,omitempty"`
}

func writeProblem(w http.ResponseWriter, status int, detail string, violations []violation) {
	title := http.StatusText(status)
	kind := "/docs/errors#" + strings.ReplaceAll(strings.ToLower(title), " ", "-")
	writeJSON(w, status, "application/problem+json", problem{kind, title, status, detail, violations})
}

func writeJSON(w http.ResponseWriter, status int, kind string, body any) {
	text := encode(body)
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(status)
	_, _ = w.Write(text)
}

// inBackground runs work that outlives the call; Start's cleanup and Wait wait for it.
func (s *Server) inBackground(ctx context.Context, work func(context.Context)) {
	s.work.Go(func() { work(context.WithoutCancel(ctx)) })
}

func encode(body any) []byte {
	text, err := json.Marshal(body)
	if err != nil {
		panic("clienttest: " + err.Error())
	}
	return text
}
