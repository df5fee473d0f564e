package httpapi_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

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

func TestPage_and_query(t *testing.T) {
	t.Parallel()
	for query, want := range map[string]struct {
		page       httpapi.Page
		violations int
	}{
		"": {httpapi.Page{Number: 1, Size: 20}, 0}, "page=3&pageSize=100": {httpapi.Page{Number: 3, Size: 100},
			0}, "page=0&pageSize=0": {httpapi.Page{}, 2}, "page=+1": {httpapi.Page{}, 1},
		"page=1&page=1": {httpapi.Page{}, 1}, "page=": {httpapi.Page{}, 1}, "pageSize=101": {httpapi.Page{},
			1}, "page=1.0": {httpapi.Page{}, 1}, "page=9223372036854775808": {httpapi.Page{}, 1},
	} {
		values, _ := url.ParseQuery(strings.ReplaceAll(query, "+", "%2B"))
		page, violations := httpapi.ParsePage(values)
		if len(violations) != want.violations || want.violations == 0 && page != want.page {
			t.Errorf("%q: %+v, %v", query, page, violations)
		}
	}
	if got := (httpapi.Page{Number: math.MaxInt64, Size: 100}).Offset(); got != math.MaxInt64 {
		t.Errorf("an overflow gives %d", got)
	}
	if got := (httpapi.Page{Number: 3, Size: 20}).Offset(); got != 40 {
		t.Errorf("page 3 begins at %d", got)
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
