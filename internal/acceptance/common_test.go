package acceptance

import (
	"io"
	"net/http"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

func commonRules(t *testing.T, h *apptest.Hub) {
	rule(t, "an unknown route is a 404 problem, before authentication", func(t *testing.T) {
		for _, path := range []string{"/nowhere", ping + "/", "/api//external/ping", "/API/external/ping", requests +
			"/1/2"} {
			wantProblem(t, h.Do(t, http.MethodGet, path, nil), 404)
		}
	})
	rule(t, "a wrong method is a 405 problem with Allow, before authentication", func(t *testing.T) {
		for path, allow := range map[string]string{tokenPath: "POST", refreshPath: "POST", revokePath: "POST", ping: "GET",
			requestPath(1) + "/selected-estimate": "PATCH"} {
			a := h.Do(t, http.MethodDelete, path, nil)
			wantProblem(t, a, 405)
			if !strings.Contains(a.Header.Get("Allow"), allow) {
				t.Errorf("%s: Allow %q", path, a.Header.Get("Allow"))
			}
		}
	})
	rule(t, "HEAD is served wherever GET is", func(t *testing.T) {
		s := h.Supplier(t, "--scopes", "material-requests,orders:read")
		id := submit(t, s, nil)
		for _, path := range []string{ping, requests, requestPath(id), "/orders", "/.well-known/jwks.json", "/openapi.json"} {
			get, head := s.Do(t, http.MethodGet, path, nil), s.Do(t, http.MethodHead, path, nil)
			wantEmpty(t, head, get.Status)
			want(t, get, 200)
		}
		wantEmpty(t, h.Do(t, http.MethodHead, ping, nil), 401)
	})
	rule(t, "a sane X-Request-Id comes back, another is replaced", func(t *testing.T) {
		for _, c := range []struct {
			sent string
			kept bool
		}{{"abc-123", true}, {strings.Repeat("x", 128), true}, {strings.Repeat("x", 129), false}, {"a b", false},
			{"é", false}, {"", false}} {
			got := h.Do(t, http.MethodGet, ping, nil, "X-Request-Id", c.sent).Header.Get("X-Request-Id")
			if got == "" || (got == c.sent) != c.kept {
				t.Errorf("sent %q, got %q", c.sent, got)
			}
		}
	})
	rule(t, "the API is described at /openapi.json and shown at /docs with nothing from outside", func(t *testing.T) {
		a := h.Do(t, http.MethodGet, "/openapi.json", nil)
		want(t, a, 200)
		if v := apptest.Decode[object](t, a)["openapi"]; !strings.HasPrefix(v.(string), "3.1") {
			t.Errorf("openapi %v", v)
		}
		wantEmpty(t, h.Do(t, http.MethodGet, "/openapi.json", nil, "If-None-Match", a.Header.Get("ETag")), 304)
		docs := h.Do(t, http.MethodGet, "/docs", nil)
		want(t, docs, 200)
		for _, outside := range []string{"https://", "http://", "//cdn"} {
			if strings.Contains(string(docs.Body), `src="`+outside) || strings.Contains(string(docs.Body), `href="`+outside) {
				t.Errorf("/docs loads from %s", outside)
			}
		}
	})
	rule(t, "two equal credential headers are refused like a wrong one", func(t *testing.T) {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, h.URL(0, ping), nil)
		if err != nil {
			t.Fatal(err)
		}
		bearer := "Bearer " + h.Supplier(t).AccessToken()
		r.Header["Authorization"] = []string{bearer, bearer}
		response, err := h.HTTP.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusUnauthorized || len(body) != 0 {
			t.Fatalf("%d %s %v", response.StatusCode, body, err)
		}
	})
}

func commandRules(t *testing.T, h *apptest.Hub) {
	rule(t, "supplier create shows id, name, key and secret once; list never", func(t *testing.T) {
		created := apptest.MustCommand[map[string]string](t, h, "supplier", "create", "--name", t.Name())
		if created["id"] == "" || created["name"] != t.Name() || !strings.HasPrefix(created["webhook_secret"], "whsec_") ||
			created["api_key"] == "" || len(created) != 4 {
			t.Fatalf("got %d members", len(created))
		}
		out, _, code := h.Command(t, "supplier", "list", "-o", "json")
		if code != 0 || !strings.Contains(out, created["id"]) || strings.Contains(out, created["api_key"]) ||
			strings.Contains(out, created["webhook_secret"]) {
			t.Fatalf("supplier list: exit code %d", code)
		}
	})
	rule(t, "supplier update changes the given flags alone", func(t *testing.T) {
		s := h.Supplier(t)
		updated := apptest.MustCommand[object](t, h, "supplier", "update", s.ID, "--scopes", "material-requests")
		if updated["name"] != t.Name() {
			t.Fatalf("got %v", updated)
		}
		wantEmpty(t, h.Do(t, http.MethodPost, "/api/products/sync", "{}", "Authorization", "Bearer "+s.Token(t).AccessToken),
			403)
	})
	rule(t, "bad usage exits 2, a failure 1 and says what is wrong on standard error", func(t *testing.T) {
		for code, commands := range map[int][][]string{
			2: {{"nonsense"}, {"supplier"}, {"supplier", "create"}, {"supplier", "update"},
				{"supplier", "create", "--name", "x", "--access-ttl", "soon"},
				{"delivery", "list", "--status", "lost"}, {"delivery", "redeliver"}, {"supplier", "list", "-o", "xml"},
				{"delivery", "list", "--limit", "-1"}, {"delivery", "list", "--since", "soon"},
				{"request", "list", "--status", "lost"}, {"request", "show", "x", "y"}, {"supplier", "update", "x"},
				{"retention", "run"}, {"retention", "run", "--before", "2999-01-01"},
				{"retention", "run", "--days", "1", "--before", "2020-01-01"},
				{"delivery", "redeliver", "msg_x", "--supplier", "x"}},
			1: {{"supplier", "deactivate", "sup_unknown"}, {"supplier", "create", "--name", " "},
				{"supplier", "create", "--name", "x", "--webhook-url", "ftp://x"},
				{"supplier", "create", "--name", "x", "--scopes", "everything"}, {"delivery", "show", "msg_unknown"},
				{"delivery", "redeliver", "msg_unknown"},
				{"delivery", "list", "--supplier", "sup_unknown"}, {"request", "list", "--supplier", "sup_unknown"},
				{"request", "show",
					"sup_unknown", "1"}, {"request", "reopen", "sup_unknown", "1"},
				{"delivery", "redeliver", "--status", "dead", "--supplier", "sup_unknown"}},
		} {
			for _, command := range commands {
				out, errOut, got := h.Command(t, command...)
				if got != code || errOut == "" || out != "" {
					t.Errorf("api %s: exit code %d, want %d; stdout %q, stderr %q", strings.Join(command, " "), got, code, out, errOut)
				}
			}
		}
	})
	rule(t, "generated keys and secrets are fresh", func(t *testing.T) {
		for _, command := range [][]string{{"keys", "generate"}, {"keys", "generate", "--secrets"}, {"secrets", "generate"}} {
			a, _, _ := h.Command(t, command...)
			b, _, code := h.Command(t, command...)
			if code != 0 || a == b || len(a) < 30 {
				t.Errorf("api %s printed %d bytes, exit code %d", strings.Join(command, " "), len(a), code)
			}
		}
	})
	rule(t, "an empty list is an empty array", func(t *testing.T) {
		if got := apptest.MustCommand[[]object](t, h, "delivery", "list", "--supplier", h.Supplier(t).ID); got == nil ||
			len(got) != 0 {
			t.Fatalf("got %v", got)
		}
	})
	rule(t, "every bad value of the configuration is named at once and the exit code is 2", func(t *testing.T) {
		for _, name := range []string{"api", "worker"} {
			cmd := exec.CommandContext(t.Context(), apptest.Binary(t, name))
			cmd.Env = []string{"DATABASE_URL=mysql://secret@x", "NATS_URL=http://x", "NATS_REPLICAS=many",
				"WEBHOOK_TIMEOUT=soon", "WORKER_CONCURRENCY=0", "LOG_LEVEL=loud", "WEBHOOK_SIGNING_SECRETS=whsec_x",
				"OPERATOR_WEBHOOK_URL=ftp://secret@x"}
			out, err := cmd.CombinedOutput()
			if cmd.ProcessState.ExitCode() != 2 {
				t.Fatalf("%s: %v, exit code %d", name, err, cmd.ProcessState.ExitCode())
			}
			for _, variable := range []string{"DATABASE_URL", "NATS_URL", "NATS_REPLICAS", "WEBHOOK_TIMEOUT",
				"WORKER_CONCURRENCY", "LOG_LEVEL", "WEBHOOK_SIGNING_SECRETS", "SECRETS_KEY", "OPERATOR_WEBHOOK_URL",
				"OPERATOR_WEBHOOK_SECRET"} {
				if !strings.Contains(string(out), variable) {
					t.Errorf("%s does not name %s:\n%s", name, variable, out)
				}
			}
			if strings.Contains(string(out), "secret@x") || strings.Contains(string(out), "whsec_x") {
				t.Errorf("%s shows a value:\n%s", name, out)
			}
		}
	})
	rule(t, "--help prints every variable", func(t *testing.T) {
		out, _, code := h.Command(t, "--help")
		if code != 0 {
			t.Fatalf("exit code %d", code)
		}
		for _, name := range []string{"HTTP_ADDR", "DATABASE_URL", "WEBHOOK_RETRY_SCHEDULE", "SECRETS_KEY"} {
			if !strings.Contains(out, name) {
				t.Errorf("--help lacks %s", name)
			}
		}
	})
}

func operationRules(t *testing.T, h *apptest.Hub) {
	get := func(t *testing.T, url string) (int, string) {
		t.Helper()
		response, err := http.Get(url)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
	rule(t, "livez, readyz, metrics and pprof are on the operator listener alone", func(t *testing.T) {
		for _, p := range slices.Concat(h.APIs, h.Workers) {
			for _, path := range []string{"/livez", "/readyz", "/metrics", "/debug/pprof/"} {
				if status, body := get(t, p.AdminURL(path)); status != 200 {
					t.Errorf("%s %s: %d %s", p.Name, path, status, body)
				}
			}
		}
		for _, path := range []string{"/livez", "/readyz", "/metrics", "/debug/pprof/"} {
			want(t, h.Do(t, http.MethodGet, path, nil), 404)
		}
	})
	rule(t, "metrics count requests by route, never by path", func(t *testing.T) {
		want(t, h.Supplier(t).Do(t, http.MethodGet, requestPath(987654321), nil), 404)
		_, body := get(t, h.APIs[0].AdminURL("/metrics"))
		if !strings.Contains(body, "/api/material-requests/:id") || strings.Contains(body, "987654321") {
			t.Error("the metrics lack the route or name a path")
		}
	})
	rule(t, "no secret reaches a log", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		next := mustRefresh(t, h, s.RefreshToken())
		h.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", s.APIKey+"x")
		becomes(t, s, submit(t, s, nil), "estimated")
		wait.Until(t, "the receiver was called", func() bool { return len(receiver.Calls()) >= 1 })
		secrets := []string{s.APIKey, s.WebhookSecret, s.RefreshToken(), s.AccessToken(), next.RefreshToken,
			h.ServiceSecret(t), h.Env["JWT_SIGNING_KEYS"], h.Env["SECRETS_KEY"]}
		for _, p := range slices.Concat(h.APIs, h.Workers) {
			for _, text := range secrets {
				if text != "" && strings.Contains(p.Log(), text) {
					t.Errorf("%s logged a secret", p.Name)
				}
			}
		}
	})
}
