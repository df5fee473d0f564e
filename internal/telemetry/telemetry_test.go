package telemetry_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

func TestLog_lines_carry_the_request_and_seconds(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, "json", "info", false)
	ctx := logctx.With(logctx.WithRequestID(context.Background(), "r-1"), slog.String("supplier_id", "acme"))
	log.With("package", "x").InfoContext(ctx, "done", "duration", 1500*time.Millisecond)
	log.DebugContext(ctx, "not shown")
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{"msg": "done", "request_id": "r-1", "supplier_id": "acme", "package": "x",
		"duration": 1.5, "level": "INFO", "version": telemetry.Version()} {
		if line[name] != want {
			t.Errorf("%s is %v, want %v", name, line[name], want)
		}
	}
	if logctx.RequestID(ctx) != "r-1" || logctx.RequestID(context.Background()) != "" {
		t.Error("the context's request id is lost")
	}
	siblings := logctx.With(ctx, slog.Int("a", 1))
	_ = logctx.With(siblings, slog.Int("b", 2))
	if n := len(logctx.Attrs(siblings)); n != 3 {
		t.Errorf("a child's attributes reached its parent: %d", n)
	}
}

func TestLog_is_text_on_a_terminal(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		format   string
		terminal bool
		json     bool
	}{{"", true, false}, {"", false, true}, {"json", true, true}, {"text", false, false}} {
		var out bytes.Buffer
		telemetry.NewLogger(&out, test.format, "nonsense", test.terminal).Info("x")
		if json.Valid(out.Bytes()) != test.json {
			t.Errorf("%+v: %s", test, out.String())
		}
	}
}

func TestAdmin_reports_liveness_and_readiness(t *testing.T) {
	t.Parallel()
	checks := map[string]error{"database": nil}
	h := telemetry.AdminHandler(telemetry.NewRegistry(), func(context.Context) map[string]error { return checks })
	get := func(path string) (int, string) {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		if w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: a browser may guess the type", path)
		}
		return w.Code, w.Body.String()
	}
	if code, body := get("/livez"); code != 200 || !strings.Contains(body, `"version"`) {
		t.Errorf("livez: %d %s", code, body)
	}
	if code, body := get("/readyz"); code != 200 || !strings.Contains(body, `"database":"ok"`) ||
		!strings.Contains(body, `"status":"ready"`) {
		t.Errorf("ready: %d %s", code, body)
	}
	checks["view"] = telemetry.Degraded{Err: errors.New("lacks a column")}
	if code, body := get("/readyz"); code != 200 || !strings.Contains(body, "lacks a column") ||
		!strings.Contains(body, `"status":"degraded"`) {
		t.Errorf("degraded: %d %s", code, body)
	}
	checks["database"] = errors.New("dial postgres://u:hunter2@db/x password=hunter2: " + strings.Repeat("x", 500))
	if code, body := get("/readyz"); code != 503 || strings.Contains(body, "hunter2") || len(body) > 600 ||
		!strings.Contains(body, `"status":"not ready"`) {
		t.Errorf("not ready: %d %s", code, body)
	}
	if code, body := get("/metrics"); code != 200 || !strings.Contains(body, "supplyhub_build_info") {
		t.Errorf("metrics: %d %.80s", code, body)
	}
	if code, _ := get("/debug/pprof/"); code != 200 {
		t.Errorf("pprof: %d", code)
	}
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil)
	r.Header.Set("Accept", "application/openmetrics-text; version=1.0.0")
	if h.ServeHTTP(w, r); !strings.HasSuffix(w.Body.String(), "# EOF\n") {
		t.Error("/metrics is not OpenMetrics for who asks for it, and so without the traces' exemplars")
	}
}

func TestLog_repeats_an_unavailable_dependency_once_a_minute_and_everything_else_each_time(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, "json", "info", false).With("package", "x")
	away := errs.NewUnavailable("The database cannot be reached.", time.Second, errors.New("refused"))
	for range 5 {
		log.Warn("due deliveries cannot be read", "error", fmt.Errorf("read: %w", away))
		log.Warn("retention failed", "error", away)
		log.Warn("a receiver failed", "error", errors.New("status 500"))
		log.Warn("request", "status", 503, "error", away.Error())
	}
	for text, want := range map[string]int{"due deliveries": 1, "retention": 0, "a receiver": 5, `"request"`: 5} {
		if n := strings.Count(out.String(), text); n != want {
			t.Errorf("%s is logged %d times, want %d", text, n, want)
		}
	}
}

func TestLog_says_again_after_a_minute_that_a_dependency_is_unavailable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	log := telemetry.NewLogger(&out, "json", "info", false)
	at := time.Date(2026, time.November, 24, 12, 0, 0, 0, time.UTC)
	for _, after := range []time.Duration{0, 59 * time.Second, time.Minute, 119 * time.Second} {
		r := slog.NewRecord(at.Add(after), slog.LevelError, "no room", 0)
		r.Add("error", errs.New(errs.Unavailable, "away"))
		if err := log.Handler().Handle(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if n := strings.Count(out.String(), "no room"); n != 2 {
		t.Errorf("it is logged %d times, want 2:\n%s", n, out.String())
	}
}
