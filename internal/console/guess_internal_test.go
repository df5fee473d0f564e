package console

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/httpapi"
)

const rightToken = "an operator's token"

// guarded is an engine with the console's sign-in and one action.
type guarded struct {
	*gin.Engine
	log *bytes.Buffer
}

func newGuarded(t *testing.T) guarded {
	t.Helper()
	g := guarded{log: &bytes.Buffer{}}
	s, err := New(Deps{Token: rightToken, Log: slog.New(slog.NewJSONHandler(g.log, nil)), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	g.Engine = httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
	g.POST("/console/token", s.Act(s.EnterToken))
	g.POST("/console/sign-out", s.Act(s.SignOut))
	g.POST("/act", s.Operator, func(c *gin.Context) { c.Status(http.StatusNoContent) })
	return g
}

func (g guarded) post(path, token, cookie string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(url.Values{"operator_token": {token}}.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Page-Request", "1")
	r.Header.Set("Cookie", cookie)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	g.ServeHTTP(w, r)
	return w
}

func TestGuess_of_the_operator_token_is_looked_at_once_a_second_and_logged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		begun := time.Now()
		for _, guess := range []func() int{
			func() int { return g.post("/console/token", "wrong", "").Code },
			func() int { return g.post("/act", "", "", "Authorization", "Bearer wrong").Code },
			func() int { return g.post("/console/token", "", "").Code },
		} {
			if code := guess(); code != http.StatusUnauthorized {
				t.Errorf("status %d", code)
			}
		}
		if took := time.Since(begun); took != 2*guessPause {
			t.Errorf("three guesses took %s", took)
		}
		const warning = `"level":"WARN","msg":"a wrong operator token was tried","client":`
		if warned := strings.Count(g.log.String(), warning); warned != 3 {
			t.Errorf("%d warnings:\n%s", warned, g.log)
		}
		if code := g.post("/act", "", "", "Authorization", "Bearer "+rightToken).Code; code != http.StatusNoContent {
			t.Errorf("the right token: %d", code)
		}
	})
}

func TestGuesses_at_once_are_refused_unseen_and_the_session_of_who_is_in_goes_on(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		in := cookieOf(g.post("/console/token", rightToken, ""))
		g.post("/console/token", "wrong", "")
		var group sync.WaitGroup
		var mu sync.Mutex
		codes := map[int]int{}
		for range mostGuessing + 20 {
			group.Go(func() {
				r := httptest.NewRequest(http.MethodPost, "/act", nil).WithContext(t.Context())
				r.Header.Set("Authorization", "Bearer wrong")
				w := httptest.NewRecorder()
				g.ServeHTTP(w, r)
				mu.Lock()
				defer mu.Unlock()
				codes[w.Code]++
			})
		}
		if code := g.post("/act", "", in).Code; code != http.StatusNoContent {
			t.Errorf("the operator's session waits for the guesses: %d", code)
		}
		group.Wait()
		if codes[http.StatusUnauthorized] != mostGuessing || codes[http.StatusTooManyRequests] != 20 {
			t.Errorf("answers %v", codes)
		}
	})
}

func cookieOf(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		return c.Name + "=" + c.Value
	}
	return ""
}

func TestConsoleSession_ends_after_twelve_hours_or_with_sign_out(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		in := cookieOf(g.post("/console/token", rightToken, ""))
		time.Sleep(12*time.Hour - time.Second)
		if code := g.post("/act", "", in).Code; code != http.StatusNoContent {
			t.Errorf("within 12 hours: %d", code)
		}
		time.Sleep(time.Second)
		forged := strings.Replace(in, "=", "=9", 1) // a later end
		for _, cookie := range []string{in, forged, "", "supplyhub_operator=1.x"} {
			if code := g.post("/act", "", cookie).Code; code != http.StatusUnauthorized {
				t.Errorf("%q: %d", cookie, code)
			}
		}
		if out := g.post("/console/sign-out", "", in); out.Result().Cookies()[0].MaxAge >= 0 {
			t.Errorf("sign-out keeps the cookie: %v", out.Header())
		}
	})
}
