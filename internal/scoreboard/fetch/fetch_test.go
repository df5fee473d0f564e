package fetch_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
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
	return fetch.New(server.URL+"/base/", key, slog.New(slog.DiscardHandler)), calls
}

func get(t *testing.T, c *fetch.Client) (fetch.Object, error) {
	t.Helper()
	got, _, err := c.Page(t.Context(), "/matches", url.Values{"date": {"2026-11-20"}})
	if err != nil && strings.Contains(err.Error(), key) {
		t.Errorf("the error shows the key: %v", err)
	}
	return got, err
}

func TestPage_asks_with_the_key_and_decodes(t *testing.T) {
	t.Parallel()
	c, _ := provider(t, func(_ int64, w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, `{"path":%q,"date":%q,"key":%q}`, r.URL.Path, r.URL.Query().Get("date"),
			r.Header.Get("Authorization"))
	})
	got, err := get(t, c)
	if err != nil || got["path"] != "/base/matches" || got["date"] != "2026-11-20" || got["key"] != key {
		t.Errorf("got %v, %v", got, err)
	}
}

// packed answers as a provider does that packs; the client unpacks it.
func packed(w http.ResponseWriter, body string) {
	w.Header().Set("Content-Encoding", "gzip")
	z := gzip.NewWriter(w)
	defer z.Close()
	_, _ = io.WriteString(z, body)
}

func TestPage_a_full_page_is_read(t *testing.T) {
	t.Parallel()
	for n, values := range map[int]int{50: 400, 100: 200, 500: 40} { // the providers' pages have 50 and 100
		match := `{"id":7` + strings.Repeat(`,"a_name":{"of_a_text":"a text of it"}`, values/2) + `}`
		c, _ := provider(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
			packed(w, `{"data":[`+match+strings.Repeat(`,`+match, n-1)+`]}`)
		})
		_, matches, err := c.Page(t.Context(), "/matches", nil)
		if err != nil || len(matches) != n {
			t.Errorf("%d matches of %d values: %d, %v", n, values, len(matches), err)
		}
	}
}

func TestPage_a_refusal_too_long_to_be_read_is_one(t *testing.T) {
	t.Parallel()
	c, _ := provider(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Retry-After", "17")
		w.WriteHeader(http.StatusTooManyRequests)
		fmt.Fprint(w, `{"retry_after":3,"x":[[]`+strings.Repeat(`,[]`, 50_000)+`]}`)
	})
	_, err := get(t, c)
	if limited, ok := errors.AsType[*fetch.RateLimited](err); !ok || limited.RetryAfter != 17*time.Second {
		t.Errorf("got %v", err)
	}
}

func TestPage_a_refusal_that_is_cut_or_garbled_is_one(t *testing.T) {
	t.Parallel()
	for name, header := range map[string][2]string{"cut": {"Content-Length", "1000"},
		"no gzip": {"Content-Encoding", "gzip"}} {
		c, _ := provider(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(header[0], header[1])
			w.Header().Set("Retry-After", "17")
			w.WriteHeader(http.StatusTooManyRequests)
			fmt.Fprint(w, `{"retry_after":3}`)
		})
		_, err := get(t, c)
		if limited, ok := errors.AsType[*fetch.RateLimited](err); !ok || limited.RetryAfter != 17*time.Second {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func TestPage_takes_anything_else_as_it_comes(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(w http.ResponseWriter, r *http.Request){
		"400":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadRequest) },
		"401":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) },
		"502":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) },
		"cut":        func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"500":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"204":        func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/elsewhere", http.StatusFound) },
		"no JSON":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>") },
		"half of it": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":[`) },
		"nothing":    func(http.ResponseWriter, *http.Request) {},
		"too much": func(w http.ResponseWriter, _ *http.Request) {
			fmt.Fprintf(w, `{"x":"%s"}`, strings.Repeat("x", 2<<20))
		},
		"too many values": func(w http.ResponseWriter, _ *http.Request) {
			packed(w, `{"data":[[]`+strings.Repeat(`,[]`, 50_000)+`]}`)
		},
		"too many matches": func(w http.ResponseWriter, _ *http.Request) {
			packed(w, `{"data":[{}`+strings.Repeat(`,{}`, 500)+`]}`)
		},
		"null":         func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, " null\n") },
		"another type": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `[1]`) },
		"two values":   func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}{}`) },
		"a brace more": func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{}}`) },
		"no list":      func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, `{"data":{}}`) },
	} {
		c, calls := provider(t, func(_ int64, w http.ResponseWriter, r *http.Request) { answer(w, r) })
		if _, err := get(t, c); err == nil || calls.Load() != 1 {
			t.Errorf("%s: %v after %d calls", name, err, calls.Load())
		}
	}
}

func TestPage_returns_when_a_rate_limit_ends(t *testing.T) {
	t.Parallel()
	now := time.Now()
	for name, c := range map[string]struct {
		header, value, body string
		least, most         time.Duration
	}{
		"seconds": {"Retry-After", "17", "", 17 * time.Second, 17 * time.Second},
		"a date": {"Retry-After", now.Add(time.Minute).UTC().Format(http.TimeFormat), "", 50 * time.Second,
			time.Minute},
		"the body":            {"", "", `{"rate_limit":{"resets_in_seconds":42}}`, 42 * time.Second, 42 * time.Second},
		"the body, otherwise": {"", "", `{"retry_after":7}`, 7 * time.Second, 7 * time.Second},
		"a text":              {"", "", `{"retry_after":"7"}`, 7 * time.Second, 7 * time.Second},
		"other types":         {"", "", `{"retry_after":[],"rate_limit":7}`, 0, 0},
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

func TestPage_ends_with_its_context_and_says_nothing_of_the_address(t *testing.T) {
	t.Parallel()
	c, _ := provider(t, func(_ int64, _ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, _, err := c.Page(ctx, "/matches", nil); !errors.Is(err, context.DeadlineExceeded) ||
		strings.Contains(err.Error(), "/matches") {
		t.Errorf("got %v", err)
	}
	nowhere := fetch.New("http://127.0.0.1:1", key, slog.New(slog.DiscardHandler))
	if _, _, err := nowhere.Page(t.Context(), "/x", nil); err == nil || strings.Contains(err.Error(), key) {
		t.Errorf("nothing listens: %v", err)
	}
}

func TestPage_a_provider_that_says_when_to_come_back_is_not_waited_for(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{"30": 30 * time.Second, "3600": time.Hour,
		time.Now().Add(time.Hour).UTC().Format(http.TimeFormat): time.Hour} {
		c, calls := provider(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, `{"message":"Down for maintenance."}`)
		})
		_, err := get(t, c)
		away, ok := errors.AsType[*fetch.Away](err)
		if !ok || calls.Load() != 1 || away.RetryAfter > want || away.RetryAfter < want-time.Minute {
			t.Fatalf("Retry-After %s: %v (%+v) after %d calls", header, err, away, calls.Load())
		}
		if text := err.Error(); text != `the provider answered with status 503: "Down for maintenance."` {
			t.Errorf("the error is %s", text)
		}
	}
	for _, header := range []string{"0", "soon", "-3", "Mon, 02 Jan 2006 15:04:05 GMT"} {
		c, calls := provider(t, func(_ int64, w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", header)
			w.WriteHeader(http.StatusServiceUnavailable)
		})
		if _, err := get(t, c); err == nil || calls.Load() != 1 {
			t.Errorf("Retry-After %q: %v after %d calls", header, err, calls.Load())
		}
	}
}

func TestPage_logs_a_message_without_matches_once_an_hour_and_without_the_key(t *testing.T) {
	t.Parallel()
	var log lines
	body := `{"message":"You have no access with provider-key-of-a-test."}`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, body) }))
	defer server.Close()
	c := fetch.New(server.URL, key, slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		if _, err := get(t, c); err != nil {
			t.Fatal(err)
		}
	}
	if text := log.String(); strings.Count(text, "no access with [key]") != 1 || strings.Contains(text, key) {
		t.Errorf("the log is %s", text)
	}
	for _, next := range []string{`{"error":"Unauthenticated."}`, `{"data":[],"message":"Nothing."}`,
		`{"data":[{}],"message":"Matches."}`, `{"message":{"a":1}}`} {
		body = next
		if _, err := get(t, c); err != nil {
			t.Fatal(err)
		}
	}
	if text := log.String(); strings.Count(text, "\n") != 3 || !strings.Contains(text, "Unauthenticated.") ||
		!strings.Contains(text, "Nothing.") {
		t.Errorf("the log is %s", text)
	}
}

func TestNotes_are_repeated_after_an_hour(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log lines
		c := fetch.New("http://127.0.0.1:1", key, slog.New(slog.NewTextHandler(&log, nil)))
		for range 5 { // at 0, 30, 60, 90 and 120 minutes
			c.LeftOut(t.Context(), fetch.Object{"id": "7"})
			time.Sleep(30 * time.Minute)
		}
		c.LeftOut(t.Context(), fetch.Object{"id": "8"})
		if text := log.String(); strings.Count(text, "match=7") != 3 || strings.Count(text, "match=8") != 1 {
			t.Errorf("the log is %s", text)
		}
	})
}

// lines is a log.
type lines struct {
	mu sync.Mutex
	strings.Builder
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.Builder.Write(p)
}
