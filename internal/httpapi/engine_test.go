package httpapi_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

func send(h http.Handler, method, target string, headers ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, target, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func engine(out *bytes.Buffer) (*gin.Engine, *prometheus.Registry) {
	registry := prometheus.NewRegistry()
	e := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.NewJSONHandler(out, nil)), Registry: registry,
		TrustedProxies: []string{"10.0.0.0/8"}})
	e.GET("/thing/:id", httpapi.Handle(func(c *gin.Context) error {
		id, err := httpapi.PathInt(c, "id")
		if err == nil {
			httpapi.JSON(c, http.StatusOK, map[string]any{"id": id, "text": "<é>"})
		}
		return err
	}))
	e.POST("/fail/:how", httpapi.Handle(func(c *gin.Context) error {
		switch c.Param("how") {
		case "panic":
			panic("with hunter2")
		case "unknown":
			return errors.New("dial postgres://u:hunter2@db")
		case "away":
			return errs.NewUnavailable("The database cannot be reached.", 1500*time.Millisecond, errors.New("hunter2"))
		default:
			return errs.InvalidInput("bad", errs.At("/a~b", "is wrong"), errs.InParameter("page", "is wrong"))
		}
	}))
	return e, registry
}

func TestErrors_are_problems_without_internals(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e, _ := engine(&out)
	for path, want := range map[string]struct {
		status int
		part   string
	}{
		"/fail/panic": {500, `"detail"`}, "/fail/unknown": {500, `"detail"`}, "/fail/away": {503,
			"cannot be reached"}, "/fail/invalid": {400, `{"pointer":"/a~b","detail":"is wrong"},{"parameter":"page"`},
	} {
		w := send(e, http.MethodPost, path)
		var problem struct {
			Type, Title string
			Status      int
		}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil || w.Code != want.status ||
			problem.Status != want.status || !strings.HasPrefix(problem.Type, "/docs/errors#") || problem.Title == "" ||
			w.Header().Get("Content-Type") != "application/problem+json" || !strings.Contains(w.Body.String(), want.part) ||
			strings.Contains(w.Body.String(), "hunter2") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if after := w.Header().Get("Retry-After"); (after == "2") != (want.status == 503) {
			t.Errorf("%s: Retry-After %q", path, after)
		}
	}
	if !strings.Contains(out.String(), "panic in a handler") || !strings.Contains(out.String(), `"level":"ERROR"`) {
		t.Errorf("the log is %s", out.String())
	}
}

func TestRouting_unknown_wrong_method_and_head(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e, _ := engine(&out)
	for _, test := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"GET", "/nothing", 404, ""}, {"GET", "/thing/7/", 404, ""}, {"POST", "/thing/7", 405, "GET, HEAD"},
		{"GET", "/fail/x", 405, "POST"}, {"GET", "/thing/7", 200, ""}, {"HEAD", "/thing/7", 200, ""},
		{"GET", "/thing/07", 404, ""}, {"GET", "/thing/+7", 404, ""}, {"GET", "/thing/9223372036854775808", 404, ""},
		{"GET", "/thing/-0", 404, ""}, {"GET", "/thing/-7", 200, ""}, {"HEAD", "/nothing", 404, ""},
	} {
		w := send(e, test.method, test.path)
		if w.Code != test.status || w.Header().Get("Allow") != test.allow {
			t.Errorf("%s %s: %d, Allow %q", test.method, test.path, w.Code, w.Header().Get("Allow"))
		}
	}
	if w := send(e, http.MethodGet, "/thing/7"); w.Body.String() != `{"id":7,"text":"<é>"}` ||
		w.Header().Get("Content-Length") != "22" {
		t.Errorf("got %s, %v", w.Body, w.Header())
	}
}

func TestRequestID_is_kept_or_made_and_logged(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	e, registry := engine(&out)
	for given, kept := range map[string]bool{"abc-1": true, strings.Repeat("x", 128): true,
		strings.Repeat("x", 129): false, "a b": false, "": false, "é": false} {
		w := send(e, http.MethodGet, "/thing/7", "X-Request-Id", given)
		if got := w.Header().Get("X-Request-Id"); (got == given) != kept || got == "" {
			t.Errorf("%q became %q", given, got)
		}
	}
	if w := send(e, http.MethodGet, "/thing/7", "X-Request-Id", "a", "X-Request-Id",
		"b"); w.Header().Get("X-Request-Id") == "a" {
		t.Error("one of two ids is kept")
	}
	if !strings.Contains(out.String(), `"route":"/thing/:id"`) || strings.Contains(out.String(), `/thing/7"`) {
		t.Errorf("the log is %s", out.String())
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 2 {
		t.Errorf("%d metrics, %v", len(families), err)
	}
}

func TestList_parameters(t *testing.T) {
	t.Parallel()
	sealer, err := cursor.New("a key")
	if err != nil {
		t.Fatal(err)
	}
	list := sealer.List("things", "failed")
	for query, want := range map[string]struct {
		list  httpapi.ListQuery
		names string // of the wrong parameters
	}{
		"": {httpapi.ListQuery{Limit: 20}, ""}, "limit=100": {httpapi.ListQuery{Limit: 100}, ""},
		"limit=1": {httpapi.ListQuery{Limit: 1}, ""}, "limit=0": {names: "limit"}, "limit=101": {names: "limit"},
		"limit=%2B1": {names: "limit"}, "limit=1.0": {names: "limit"}, "limit=": {names: "limit"},
		"limit=01":        {names: "limit"},
		"limit=1&limit=1": {names: "limit"}, "cursor=": {names: "cursor"}, "cursor=x&limit=x": {names: "limit cursor"},
		"cursor=x&cursor=x": {names: "cursor"}, "cursor=" + sealer.List("things", "dead").Seal(3): {names: "cursor"},
		"cursor=" + list.Seal(3, 4): {names: "cursor"},
	} {
		values, _ := url.ParseQuery(query)
		got, violations := httpapi.ParseList(values)
		behind := int64(9)
		var names []string
		for _, v := range append(violations, got.Open(list, &behind)...) {
			names = append(names, v.Place())
		}
		if strings.Join(names, " ") != want.names || want.names == "" && (got != want.list || behind != 9) {
			t.Errorf("%q: %+v behind %d, wrong are %v", query, got, behind, names)
		}
	}
	behind, text := int64(9), list.Seal(3)
	got, violations := httpapi.ParseList(url.Values{"cursor": {text}, "limit": {"7"}})
	violations = append(violations, got.Open(list, &behind)...)
	if len(violations) > 0 || behind != 3 || got.Limit != 7 {
		t.Errorf("its own cursor: %+v behind %d, %v", got, behind, violations)
	}
}

func TestEngine_behind_https_keeps_browsers_there(t *testing.T) {
	t.Parallel()
	for _, https := range []bool{true, false} {
		engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler), HTTPS: https})
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if got := w.Header().Get("Strict-Transport-Security"); (got != "") != https {
			t.Errorf("https %t: %q", https, got)
		}
	}
}

// net/http counts an answer's time from the call's head.
func TestLong_work_is_answered(t *testing.T) {
	t.Parallel()
	const limit = time.Millisecond
	e, _ := engine(&bytes.Buffer{})
	slow := httpapi.Handle(func(c *gin.Context) error {
		began := time.Now()
		wait.Until(t, "an answer is late", func() bool { return time.Since(began) > 2*limit })
		return httpapi.JSON(c, http.StatusAccepted, "done")
	})
	e.POST("/long", httpapi.Long, slow)
	e.POST("/short", slow)
	s := httptest.NewUnstartedServer(e)
	s.Config.WriteTimeout = limit
	s.Start()
	defer s.Close()
	for path, answered := range map[string]bool{"/long": true, "/short": false} {
		answer, err := s.Client().Post(s.URL+path, "", nil)
		if (err == nil) != answered {
			t.Errorf("%s: %v", path, err)
		}
		if err == nil {
			_ = answer.Body.Close()
		}
	}
}

// A caller that closes only its sending side looks to net/http as one that is gone.
func TestCaller_that_closes_its_sending_side_reads_an_answer_and_the_log_says_that_it_was_gone(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		fails error // nil: as a call of the database does whose context ends
		want  int
	}{
		"what is cut off may be done again": {nil, http.StatusServiceUnavailable},
		"what is refused is refused":        {errs.New(errs.Unauthenticated, "no"), http.StatusUnauthorized},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			e, _ := engine(&out)
			e.POST("/slow", httpapi.Handle(func(c *gin.Context) error {
				<-c.Request.Context().Done()
				return cmp.Or(test.fails, c.Request.Context().Err())
			}))
			s := httptest.NewServer(e)
			conn, err := net.Dial("tcp", s.Listener.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			if _, err := conn.Write([]byte("POST /slow HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n")); err != nil {
				t.Fatal(err)
			}
			if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
				t.Fatal(err)
			}
			answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Fatal(err)
			}
			defer answer.Body.Close()
			if answer.StatusCode != test.want || answer.Header.Get("Content-Type") != "application/problem+json" ||
				(answer.Header.Get("Retry-After") != "") != (test.fails == nil) {
				t.Errorf("%d %v", answer.StatusCode, answer.Header)
			}
			s.Close() // the line is written
			if !strings.Contains(out.String(), `"status":499`) {
				t.Errorf("the log: %s", out.String())
			}
		})
	}
}
