//go:build unix

package running_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

const (
	callers = 6
	pause   = 150 * time.Millisecond // between the calls of one
)

// load is suppliers' systems that send requests without a pause, and never send one twice.
type load struct {
	t       *testing.T
	url     string
	key     string
	token   string
	id      atomic.Int64
	mu      sync.Mutex
	answers map[string]int
	longest time.Duration
}

func newLoad(t *testing.T, url, key string) *load {
	t.Helper()
	l := &load{t: t, url: url, key: key, answers: map[string]int{}}
	l.enter()
	return l
}

// enter gets a token.
func (l *load) enter() {
	l.t.Helper()
	r, err := http.NewRequestWithContext(l.t.Context(), http.MethodPost, l.url+"/api/external-auth/token", nil)
	if err != nil {
		l.t.Fatal(err)
	}
	r.Header.Set("X-Api-Key", l.key)
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		l.t.Fatal(err)
	}
	defer answer.Body.Close()
	var tokens struct {
		AccessToken string `json:"AccessToken"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&tokens); err != nil || tokens.AccessToken == "" {
		l.t.Fatalf("no token: status %d, %v", answer.StatusCode, err)
	}
	l.token = tokens.AccessToken
}

// request returns the request that posts the id, with members added to its item's name.
func (l *load) request(url string, id int64, name string) (*http.Request, error) {
	body := fmt.Sprintf(`{"id": %d, "shop_code": "SP-001", "materials": [{"material_id": 10, "material": %q, "sku": "S",
		"width": 90, "height": 30, "depth": 25, "quantity": 4}]}`, id, name)
	r, err := http.NewRequestWithContext(context.WithoutCancel(l.t.Context()), http.MethodPost,
		url+"/api/material-requests",
		strings.NewReader(body))
	if err == nil {
		r.Header.Set("Authorization", "Bearer "+l.token)
		r.Header.Set("Content-Type", "application/json")
	}
	return r, err
}

// while keeps the load up for as long as something is done, and fails unless each call was accepted.
func (l *load) while(what string, done func()) {
	l.t.Helper()
	l.answers, l.longest = map[string]int{}, 0
	ctx, stop := context.WithCancel(l.t.Context())
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for tick := time.NewTicker(pause); ctx.Err() == nil; <-tick.C {
				l.call()
			}
		})
	}
	finish := sync.OnceFunc(func() { stop(); all.Wait() })
	defer finish()
	done()
	finish()
	l.t.Logf("LOAD during %s: answers %v, longest %d ms", what, l.answers, l.longest.Milliseconds())
	if names := slices.Collect(maps.Keys(l.answers)); !slices.Equal(names, []string{"201"}) {
		l.t.Errorf("%s: not every request was accepted: %v", what, l.answers)
	}
}

func (l *load) call() {
	began, status := time.Now(), ""
	r, err := l.request(l.url, l.id.Add(1), "Shelf")
	if err == nil {
		var answer *http.Response
		if answer, err = http.DefaultClient.Do(r); err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
			_ = answer.Body.Close()
			status = fmt.Sprint(answer.StatusCode)
		}
	}
	if err != nil {
		status = err.Error()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers[status]++
	l.longest = max(l.longest, time.Since(began))
}

// estimated waits until a request has its estimates.
func (l *load) estimated(id int64) {
	l.t.Helper()
	wait.Until(l.t, "the request is estimated", func() bool {
		r, err := http.NewRequestWithContext(l.t.Context(), http.MethodGet,
			fmt.Sprintf("%s/api/material-requests/%d", l.url, id),
			nil)
		if err != nil {
			return false
		}
		r.Header.Set("Authorization", "Bearer "+l.token)
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		defer answer.Body.Close()
		text, _ := io.ReadAll(answer.Body)
		return strings.Contains(string(text), `"status":"estimated"`)
	})
}
