package fetch_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

const key = "provider-key-of-a-test"

// provider answers the n-th call, from 1, as the test says, and counts them.
func provider(t *testing.T, answer func(n int64, w http.ResponseWriter, r *http.Request)) (
	client *fetch.Client, calls *atomic.Int64) {
	t.Helper()
	calls = new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer(calls.Add(1), w, r)
	}))
	t.Cleanup(server.Close)
	return fetch.New(server.URL+"/base/", key), calls
}

func get(t *testing.T, c *fetch.Client) (map[string]any, error) {
	t.Helper()
	var got map[string]any
	err := c.JSON(t.Context(), "/matches", url.Values{"date": {"2026-11-20"}}, &got)
	if err != nil && strings.Contains(err.Error(), key) {
		t.Errorf("the error shows the key: %v", err)
	}
	return got, err
}

func TestJSON_asks_with_the_key_and_decodes(t *testing.T) {
	t.Parallel()
	c, _ := provider(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"path":%q,"date":%q,"key":%q}`, r.URL.Path, r.URL.Query().Get("date"), r.Header.Get("Authorization"))
	})
	got, err := get(t, c)
	if err != nil || got["path"] != "/base/matches" || got["date"] != "2026-11-20" || got["key"] != key {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestJSON_repeats_once_what_a_gateway_refused_or_a_connection_lost(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]func(w http.ResponseWriter){
		"502": func(w http.ResponseWriter) { w.WriteHeader(http.StatusBadGateway) },
		"503": func(w http.ResponseWriter) { w.WriteHeader(http.StatusServiceUnavailable) },
		"504": func(w http.ResponseWriter) { w.WriteHeader(http.StatusGatewayTimeout) },
		"cut": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
	} {
		c, calls := provider(t, func(n int64, w http.ResponseWriter, _ *http.Request) {
			if n == 1 {
				fault(w)
				return
			}
			fmt.Fprint(w, `{}`)
		})
		if _, err := get(t, c); err != nil || calls.Load() != 2 {
			t.Errorf("%s: %v after %d calls", name, err, calls.Load())
		}
		always, calls := provider(t, func(_ int64, w http.ResponseWriter, _ *http.Request) { fault(w) })
		if _, err := get(t, always); err == nil || calls.Load() != 2 {
			t.Errorf("%s always: %v after %d calls", name, err, calls.Load())
		}
	}
}

func TestJSON_takes_anything_else_as_it_comes(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"400":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
		"401":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"500":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"204":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"no JSON":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"half of it": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[`) },
		"nothing":    func(http.ResponseWriter, *http.Request) {},
		"too much": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"x":"%s"}`, strings.Repeat("x", 8<<20))
		},
		"null":         func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, " null\n") },
		"another type": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[1]`) },
	} {
		c, calls := provider(t, func(_ int64, w http.ResponseWriter, r *http.Request) { answer(w, r) })
		if _, err := get(t, c); err == nil || calls.Load() != 1 {
			t.Errorf("%s: %v after %d calls", name, err, calls.Load())
		}
	}
}

func TestJSON_returns_when_a_rate_limit_ends(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		header, value, body string
		least, most         time.Duration
	}{
		"seconds": {"Retry-After", "17", "", 17 * time.Second, 17 * time.Second},
		"a date": {"Retry-After", now.Add(time.Minute).UTC().Format(http.TimeFormat), "", 50 * time.Second,
			time.Minute},
		"a reset": {"X-RateLimit-Reset", fmt.Sprint(now.Add(time.Minute).Unix()), "", 50 * time.Second,
			time.Minute},
		"the body":            {"", "", `{"rate_limit":{"resets_in_seconds":42}}`, 42 * time.Second, 42 * time.Second},
		"the body, otherwise": {"", "", `{"retry_after":7}`, 7 * time.Second, 7 * time.Second},
	} {
		client, calls := provider(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
			if c.header != "" {
				w.Header().Set(c.header, c.value)
			}
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, c.body)
		})
		_, err := get(t, client)
		limited, ok := errors.AsType[*fetch.RateLimited](err)
		if !ok || calls.Load() != 1 || limited.RetryAfter < c.least || limited.RetryAfter > c.most {
			t.Errorf("%s: %v (%+v) after %d calls", name, err, limited, calls.Load())
		}
	}
}

func TestJSON_ends_with_its_context_and_says_nothing_of_the_address(t *testing.T) {
	t.Parallel()
	c, _ := provider(t, func(_ int64, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var got any
	if err := c.JSON(ctx, "/matches", nil, &got); !errors.Is(err, context.DeadlineExceeded) ||
		strings.Contains(err.Error(), "/matches") {
		t.Errorf("got %v", err)
	}
	if err := fetch.New("http://127.0.0.1:1", key).JSON(t.Context(), "/x", nil, &got); err == nil ||
		strings.Contains(err.Error(), key) {
		t.Errorf("nothing listens: %v", err)
	}
}
