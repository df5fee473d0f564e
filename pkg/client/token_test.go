package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
)

const (
	tokenCall   = "POST /api/external-auth/token"
	refreshCall = "POST /api/external-auth/refresh"
	pingCall    = "GET /api/external/ping"
)

func mustPing(t *testing.T, c *client.Client) {
	t.Helper()
	if _, err := c.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantCalls(t *testing.T, s *clienttest.Server, want map[string]int) {
	t.Helper()
	for call, n := range want {
		if got := s.Count(call); got != n {
			t.Errorf("%s was called %d times, want %d", call, got, n)
		}
	}
}

func TestToken_is_renewed_below_60_seconds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.New(clienttest.Config{})
		c := s.Client()
		mustPing(t, c)
		time.Sleep(14*time.Minute - time.Second)
		mustPing(t, c)
		wantCalls(t, s, map[string]int{tokenCall: 1, refreshCall: 0})
		time.Sleep(2 * time.Second)
		mustPing(t, c)
		wantCalls(t, s, map[string]int{tokenCall: 1, refreshCall: 1, pingCall: 3})
	})
}

func TestToken_that_lives_shorter_than_two_minutes_is_used_for_half_its_life(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := clienttest.New(clienttest.Config{AccessTTL: 20 * time.Second})
		c := s.Client()
		mustPing(t, c)
		time.Sleep(9 * time.Second)
		mustPing(t, c)
		wantCalls(t, s, map[string]int{refreshCall: 0})
		time.Sleep(2 * time.Second)
		mustPing(t, c)
		wantCalls(t, s, map[string]int{tokenCall: 1, refreshCall: 1})
	})
}

func TestToken_is_renewed_after_a_401(t *testing.T) {
	t.Parallel()
	s := clienttest.New(clienttest.Config{})
	c := s.Client()
	mustPing(t, c)
	s.ExpireAccessTokens()
	mustPing(t, c)
	wantCalls(t, s, map[string]int{tokenCall: 1, refreshCall: 1, pingCall: 3})
}

func TestToken_is_renewed_once_for_concurrent_callers(t *testing.T) {
	t.Parallel()
	s := clienttest.New(clienttest.Config{})
	c := s.Client()
	together := func() {
		var all sync.WaitGroup
		for range 50 {
			all.Go(func() {
				if _, err := c.Ping(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
	}
	together()
	wantCalls(t, s, map[string]int{tokenCall: 1, refreshCall: 0})
	s.ExpireAccessTokens()
	together()
	wantCalls(t, s, map[string]int{tokenCall: 1, refreshCall: 1})
}

func TestToken_comes_by_the_API_key_when_the_refresh_is_refused_or_expired(t *testing.T) {
	t.Parallel()
	t.Run("refused", func(t *testing.T) {
		t.Parallel()
		s := clienttest.New(clienttest.Config{})
		c := s.Client()
		mustPing(t, c)
		s.EndSessions()
		s.ExpireAccessTokens()
		mustPing(t, c)
		wantCalls(t, s, map[string]int{tokenCall: 2, refreshCall: 1})
	})
	t.Run("expired", func(t *testing.T) {
		t.Parallel()
		synctest.Test(t, func(t *testing.T) {
			s := clienttest.New(clienttest.Config{})
			c := s.Client()
			mustPing(t, c)
			time.Sleep(15 * 24 * time.Hour)
			mustPing(t, c)
			wantCalls(t, s, map[string]int{tokenCall: 2, refreshCall: 0})
		})
	})
}

// The first refresh may have used the token up, and presenting it again would end the session.
func TestToken_refresh_whose_answer_was_lost_is_never_repeated(t *testing.T) {
	t.Parallel()
	s := clienttest.New(clienttest.Config{})
	c := s.Client()
	mustPing(t, c)
	s.ExpireAccessTokens()
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/refresh") {
			w.WriteHeader(http.StatusServiceUnavailable)
			return true
		}
		return false
	})
	mustPing(t, c)
	wantCalls(t, s, map[string]int{tokenCall: 2, refreshCall: 1})
}

func TestToken_after_a_second_401_comes_by_the_API_key_and_a_third_is_final(t *testing.T) {
	t.Parallel()
	s := clienttest.New(clienttest.Config{})
	c := s.Client()
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/api/external/ping" {
			return false
		}
		w.WriteHeader(http.StatusUnauthorized)
		return true
	})
	if _, err := c.Ping(t.Context()); !errors.Is(err, client.ErrUnauthorized) {
		t.Fatalf("got %v", err)
	}
	wantCalls(t, s, map[string]int{tokenCall: 2, refreshCall: 1, pingCall: 3})
}

func TestToken_of_a_deactivated_supplier_is_an_error_at_once(t *testing.T) {
	t.Parallel()
	s := clienttest.New(clienttest.Config{})
	c := s.Client()
	s.Deactivate()
	_, err := c.Ping(t.Context())
	var answer *client.Error
	if !errors.As(err, &answer) || !errors.Is(err, client.ErrUnauthorized) || answer.Code != "invalid_client" {
		t.Fatalf("got %v", err)
	}
	wantCalls(t, s, map[string]int{tokenCall: 1, pingCall: 0})
}

func TestRevoke_ends_the_session_and_the_next_call_begins_another(t *testing.T) {
	t.Parallel()
	s := clienttest.New(clienttest.Config{})
	c := s.Client()
	if err := c.Revoke(t.Context()); err != nil || len(s.Calls()) != 0 {
		t.Fatalf("without a session: %v, %v", err, s.Calls())
	}
	mustPing(t, c)
	if err := c.Revoke(t.Context()); err != nil {
		t.Fatal(err)
	}
	mustPing(t, c)
	wantCalls(t, s, map[string]int{tokenCall: 2, "POST /api/external-auth/revoke": 1})
}

func TestClient_shows_no_secret_however_it_is_printed(t *testing.T) {
	t.Parallel()
	s := clienttest.New(clienttest.Config{})
	c := s.Client()
	mustPing(t, c)
	for _, verb := range []string{"%v", "%+v", "%#v", "%s"} {
		for _, value := range []any{c, *c} { // a copy is what a careless caller prints
			if text := fmt.Sprintf(verb, value); strings.Contains(text, s.APIKey) || strings.Contains(text, "at_") ||
				strings.Contains(text, "hub_rt_") {
				t.Errorf("%s shows a secret: %s", verb, text)
			}
		}
	}
}

// A custom header travels along with a redirect to another host, unlike Authorization.
func TestClient_takes_the_API_key_nowhere_else(t *testing.T) {
	t.Parallel()
	s, thief := clienttest.Start(t, clienttest.Config{}), clienttest.Start(t, clienttest.Config{})
	s.Intercept(func(w http.ResponseWriter, r *http.Request) bool {
		http.Redirect(w, r, thief.URL+r.URL.Path, http.StatusTemporaryRedirect)
		return true
	})
	if _, err := s.Client().Ping(t.Context()); err == nil {
		t.Error("a redirect was taken for a success")
	}
	if calls := thief.Calls(); len(calls) > 0 {
		t.Errorf("the client followed to another host: %v", calls)
	}
}

func TestNew_refuses_what_cannot_work(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]client.Config{
		"no address":        {APIKey: "k"},
		"no scheme":         {BaseURL: "localhost:8080", APIKey: "k"},
		"another scheme":    {BaseURL: "ftp://hub", APIKey: "k"},
		"a query":           {BaseURL: "https://hub?x=1", APIKey: "k"},
		"credentials in it": {BaseURL: "https://a:b@hub", APIKey: "k"},
		"not an address":    {BaseURL: "https://hub:port", APIKey: "k"},
		"no key":            {BaseURL: "https://hub"},
		"an empty query":    {BaseURL: "https://hub?", APIKey: "k"},
		"an empty fragment": {BaseURL: "https://hub#", APIKey: "k"},
		"a blank key":       {BaseURL: "https://hub", APIKey: " \n"},
		"a key of lines":    {BaseURL: "https://hub", APIKey: "hub_sk_secret\nx"},
		"a key of others":   {BaseURL: "https://hub", APIKey: "hub_sk_secret\u00e7"},
	} {
		if _, err := client.New(config); err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
	s := clienttest.New(clienttest.Config{})
	c, err := client.New(client.Config{BaseURL: "http://hub.test//", APIKey: " " + s.APIKey + "\n",
		HTTP: &http.Client{Transport: handlerTransport{s}}})
	if err != nil {
		t.Fatal(err)
	}
	mustPing(t, c)
}

// A proxy may answer 200 with a page of its own, and a token may be as good as over when it arrives.
func TestToken_that_cannot_be_used_ends_the_call_after_one_more_at_most(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		body  string
		fails bool
	}{
		"no token":    {`{}`, true},
		"no lifetime": {`{"AccessToken":"a","RefreshToken":"r","RefreshExpiresIn":60}`, true},
		"a lifetime that is over when it is read": {
			`{"AccessToken":"a","RefreshToken":"r","ExpiresIn":1,"RefreshExpiresIn":60}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				asked := 0
				c, err := client.New(client.Config{BaseURL: "http://hub.example", APIKey: "key",
					HTTP: &http.Client{Transport: answers(func(r *http.Request) string {
						if r.Method == http.MethodGet {
							return `{"supplier":{}}`
						}
						asked++
						time.Sleep(2 * time.Second)
						return test.body
					})}})
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				if _, err := c.Ping(ctx); err != nil != test.fails || ctx.Err() != nil {
					t.Errorf("the call ends with %v", err)
				}
				if asked > 5 {
					t.Errorf("the service was asked %d times", asked)
				}
			})
		})
	}
}

// answers is a transport whose answers are all 200.
type answers func(*http.Request) string

func (a answers) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Request: r,
		Body: io.NopCloser(strings.NewReader(a(r)))}, nil
}
