package apptest

import (
	"bytes"
	"encoding/json"
	"flag"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// Supplier is a supplier made for a test, with a session.
type Supplier struct {
	ID            string `json:"id"`
	APIKey        string `json:"api_key"`
	WebhookSecret string `json:"webhook_secret"`
	hub           *Hub
	tokens        Tokens
}

// Tokens is the answer of token and refresh.
type Tokens struct {
	AccessToken      string
	RefreshToken     string
	TokenType        string
	ExpiresIn        int64
	RefreshExpiresIn int64
}

// Answer is an HTTP answer, read whole.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte
}

// Decode reads the body as JSON.
func Decode[T any](tb testing.TB, a Answer) T {
	tb.Helper()
	var v T
	if err := json.Unmarshal(a.Body, &v); err != nil {
		tb.Fatalf("the body of a %d is no JSON: %v\n%s", a.Status, err, a.Body)
	}
	return v
}

// Supplier makes a supplier with the given flags of `supplier create` and opens a session. It writes what the command
// writes: hundreds of tests need a supplier, and a process for each took a tenth of all their time.
func (h *Hub) Supplier(tb testing.TB, flags ...string) *Supplier {
	tb.Helper()
	n := newSupplier(tb, flags)
	path := filepath.Join(h.Env["DATA_DIR"], "supplyhub.db")
	if h.Env["DATABASE_URL"] != "" {
		path = ""
	}
	quiet := slog.New(slog.DiscardHandler)
	db, err := database.Open(tb.Context(), database.Config{URL: h.Env["DATABASE_URL"], Path: path, Log: quiet})
	if err != nil {
		tb.Fatal(err)
	}
	defer db.Close()
	if err := db.CheckSchema(tb.Context()); err != nil { // as the command, which waits at a full server
		tb.Fatal(err)
	}
	service, err := supplierauth.New(supplierauth.Deps{DB: db, Log: quiet, Now: db.Now, Latest: db.Latest, Local: time.Now,
		SecretsKeys: h.own(tb, "SECRETS_KEY", "secrets_key"), AllowPrivateWebhooks: h.Env["WEBHOOK_ALLOW_PRIVATE"] == "true"})
	if err != nil {
		tb.Fatal(err)
	}
	defer service.Close()
	created, err := service.CreateSupplier(tb.Context(), n)
	if err != nil {
		tb.Fatal(err)
	}
	return h.Known(tb, Supplier{ID: created.Supplier.ID, APIKey: created.APIKey, WebhookSecret: created.WebhookSecret})
}

// Known opens a session of a supplier that is there.
func (h *Hub) Known(tb testing.TB, s Supplier) *Supplier {
	tb.Helper()
	s.hub = h
	s.tokens = s.Token(tb)
	return &s
}

// newSupplier reads the flags of `supplier create`.
func newSupplier(tb testing.TB, args []string) supplierauth.Supplier {
	tb.Helper()
	flags := flag.NewFlagSet("supplier create", flag.ContinueOnError)
	n := supplierauth.Supplier{Name: tb.Name()}
	flags.StringVar(&n.WebhookURL, "webhook-url", "", "")
	flags.DurationVar(&n.AccessTTL, "access-ttl", supplierauth.DefaultAccessTTL, "")
	flags.DurationVar(&n.RefreshTTL, "refresh-ttl", supplierauth.DefaultRefreshTTL, "")
	flags.Func("receiver-concurrency", "", func(text string) error {
		calls, err := strconv.Atoi(text)
		n.ReceiverConcurrency = &calls
		return err
	})
	scopes := flags.String("scopes", strings.Join(supplierauth.DefaultScopes(), ","), "")
	if err := flags.Parse(args); err != nil {
		tb.Fatal(err)
	}
	n.Scopes = strings.Split(*scopes, ",")
	return n
}

// Token exchanges the API key for a new session.
func (s *Supplier) Token(tb testing.TB) Tokens {
	tb.Helper()
	a := s.hub.Do(tb, http.MethodPost, "/api/external-auth/token", nil, "x-api-key", s.APIKey)
	if a.Status != http.StatusOK {
		tb.Fatalf("token: %d %s", a.Status, a.Body)
	}
	return Decode[Tokens](tb, a)
}

// AccessToken returns the supplier's Bearer token.
func (s *Supplier) AccessToken() string { return s.tokens.AccessToken }

// RefreshToken returns the refresh token of the supplier's session.
func (s *Supplier) RefreshToken() string { return s.tokens.RefreshToken }

// Do calls the service with the supplier's Bearer token. A nil body sends none; other than bytes and strings are sent
// as JSON.
func (s *Supplier) Do(tb testing.TB, method, path string, body any, headers ...string) Answer {
	tb.Helper()
	return s.hub.Do(tb, method, path, body,
		append([]string{"Authorization", "Bearer " + s.tokens.AccessToken}, headers...)...)
}

// Do calls the first api. headers are names and values in turn.
func (h *Hub) Do(tb testing.TB, method, path string, body any, headers ...string) Answer {
	tb.Helper()
	return h.DoAt(tb, 0, method, path, body, headers...)
}

// DoAt calls the i-th api.
func (h *Hub) DoAt(tb testing.TB, i int, method, path string, body any, headers ...string) Answer {
	tb.Helper()
	answer, err := h.Try(tb, h.URL(i, path), method, body, headers...)
	if err != nil {
		tb.Fatalf("%s %s: %v", method, path, err)
	}
	return answer
}

// Try makes a call that may fail on the way.
func (h *Hub) Try(tb testing.TB, url, method string, body any, headers ...string) (Answer, error) {
	tb.Helper()
	request, err := http.NewRequestWithContext(tb.Context(), method, url, reader(tb, body))
	if err != nil {
		return Answer{}, err
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i+1] == "" {
			request.Header.Del(headers[i])
			continue
		}
		request.Header.Set(headers[i], headers[i+1])
	}
	response, err := h.HTTP.Do(request)
	if err != nil {
		return Answer{}, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return Answer{Status: response.StatusCode, Header: response.Header, Body: text}, err
}

func reader(tb testing.TB, body any) io.Reader {
	tb.Helper()
	switch b := body.(type) {
	case nil:
		return nil
	case string:
		return bytes.NewReader([]byte(b))
	case []byte:
		return bytes.NewReader(b)
	default:
		text, err := json.Marshal(b)
		if err != nil {
			tb.Fatal(err)
		}
		return bytes.NewReader(text)
	}
}
