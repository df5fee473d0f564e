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

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

const rightToken = "an operator's token"

// guarded is an engine with the console's sign-in and one action.
type guarded struct {
	*gin.Engine
	*Service
	log *bytes.Buffer
}

func newGuarded(t *testing.T) guarded {
	t.Helper()
	g := guarded{log: &bytes.Buffer{}}
	s, err := New(Deps{Token: rightToken, Log: slog.New(slog.NewJSONHandler(g.log, nil)), Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	g.Service = s
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
		if r.Header.Del(headers[i]); headers[i+1] != "" {
			r.Header.Set(headers[i], headers[i+1])
		}
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

func TestOperator_takes_a_token_once_and_its_scheme_in_any_case(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	for _, sent := range []struct {
		headers []string
		code    int
	}{
		{[]string{"bearer " + rightToken}, http.StatusNoContent},
		{[]string{"BEARER  " + rightToken}, http.StatusNoContent},
		{[]string{"Bearer " + rightToken, "Bearer " + rightToken}, http.StatusUnauthorized},
		{[]string{"Bearer " + rightToken, "Basic eDp5"}, http.StatusUnauthorized},
		{[]string{"Basic " + rightToken}, http.StatusUnauthorized},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/act", nil)
		r.Header["Authorization"] = sent.headers
		w := httptest.NewRecorder()
		if g.ServeHTTP(w, r); w.Code != sent.code {
			t.Errorf("%d headers, %.7s: %d", len(sent.headers), sent.headers[0], w.Code)
		}
	}
}

func TestGuesses_of_one_address_are_refused_unseen_and_hold_up_no_other_address(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuarded(t)
		try := func(address, token string) int {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/act", nil)
			r.RemoteAddr = address + ":1234"
			r.Header.Set("Authorization", "Bearer "+token)
			w := httptest.NewRecorder()
			g.ServeHTTP(w, r)
			return w.Code
		}
		try("192.0.2.1", "wrong")
		var group sync.WaitGroup
		var mu sync.Mutex
		codes := map[int]int{}
		for range mostGuessing + 20 {
			group.Go(func() {
				code := try("192.0.2.1", "wrong")
				mu.Lock()
				defer mu.Unlock()
				codes[code]++
			})
		}
		synctest.Wait()
		begun := time.Now()
		if code := try("192.0.2.2", rightToken); code != http.StatusNoContent || time.Since(begun) > 0 {
			t.Errorf("the operator's own address: %d after %v", code, time.Since(begun))
		}
		group.Wait()
		if codes[http.StatusUnauthorized] != mostGuessing || codes[http.StatusTooManyRequests] != 20 {
			t.Errorf("answers %v", codes)
		}
		time.Sleep(guessPause)
		synctest.Wait()
		if len(g.guesses.of) != 0 {
			t.Errorf("%d addresses are remembered", len(g.guesses.of))
		}
	})
}

// A page of another site once had tokens tried by its visitors' browsers.
func TestGuess_that_the_page_has_not_sent_is_not_looked_at(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	for name, headers := range map[string][]string{
		"a form":              {"X-Page-Request", ""},
		"another site":        {"Sec-Fetch-Site", "cross-site"},
		"a neighbour":         {"Sec-Fetch-Site", "same-site"},
		"another site's form": {"X-Page-Request", "", "Sec-Fetch-Site", "cross-site"},
	} {
		for _, token := range []string{"wrong", rightToken} {
			if code := g.post("/console/token", token, "", headers...).Code; code != http.StatusForbidden {
				t.Errorf("%s: %d", name, code)
			}
		}
	}
	if g.log.Len() > 0 {
		t.Errorf("a token was tried: %s", g.log)
	}
}

func cookieOf(w *httptest.ResponseRecorder) string {
	for _, c := range w.Result().Cookies() {
		return c.Name + "=" + c.Value
	}
	return ""
}

func TestConsoleSession_ends_after_twelve_hours_or_by_sign_out_on_every_replica(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Now()
		sessions, err := supplierauth.New(supplierauth.Deps{DB: db, Now: func() time.Time { return now }, Local: time.Now,
			Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(sessions.Close)
		one, two := newGuarded(t), newGuarded(t)
		one.deps.Suppliers, two.deps.Suppliers = sessions, sessions
		status := func(g guarded, cookie string, want int) {
			t.Helper()
			if code := g.post("/act", "", cookie).Code; code != want {
				t.Errorf("%q: %d, want %d", cookie, code, want)
			}
		}
		in, again := cookieOf(one.post("/console/token", rightToken, "")),
			cookieOf(one.post("/console/token", rightToken, ""))
		for _, g := range []guarded{one, two} {
			status(g, in, http.StatusNoContent)
			for _, cookie := range []string{in + "x", "", "supplyhub_operator=", "supplyhub_operator=1.x"} {
				status(g, cookie, http.StatusUnauthorized)
			}
		}
		if out := one.post("/console/sign-out", "", in); out.Result().Cookies()[0].MaxAge >= 0 {
			t.Errorf("sign-out keeps the cookie: %v", out.Header())
		}
		status(one, in, http.StatusUnauthorized) // a copy
		status(two, in, http.StatusUnauthorized)
		now = now.Add(operatorHours - time.Second)
		status(two, again, http.StatusNoContent)
		rotated := newGuarded(t)
		rotated.deps.Suppliers, rotated.deps.Token = sessions, "another operator's token"
		status(rotated, again, http.StatusUnauthorized)
		now = now.Add(time.Second)
		status(two, again, http.StatusUnauthorized)
	})
}
