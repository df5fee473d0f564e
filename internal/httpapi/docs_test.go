package httpapi_test

import (
	"encoding/json"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/httpapi/bodytest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const docsVersion = "v1.2.3-test"

var docsPages = []string{"/docs", "/docs/requests", "/docs/authentication", "/docs/webhooks", "/docs/errors",
	"/docs/retries",
	"/docs/estimates", "/docs/trackers", "/docs/scoreboard"}

// docsService serves the documentation as the service does.
func docsService(t *testing.T) http.Handler {
	t.Helper()
	return docsServiceWith(t, nil)
}

func docsServiceWith(t *testing.T, ledger *httpapi.Ledger) *gin.Engine {
	t.Helper()
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler), Ledger: ledger})
	engine.GET("/openapi.json", httpapi.Handle(httpapi.OpenAPI(docsVersion)))
	docs := httpapi.Docs(docsVersion)
	engine.GET("/docs", httpapi.Handle(docs))
	engine.GET("/docs/*file", httpapi.Handle(docs))
	return engine
}

func fetch(t *testing.T, h http.Handler, path string) *httptest.ResponseRecorder {
	t.Helper()
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
	return w
}

func TestDocs_pages_fit_a_phone_name_the_version_and_load_nothing_from_elsewhere(t *testing.T) {
	t.Parallel()
	h := docsService(t)
	loads := regexp.MustCompile(`(?:src|<link[^>]*href)="([^"]+)"`)
	for _, page := range docsPages {
		w := fetch(t, h, page)
		body := w.Body.String()
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/html; charset=utf-8" ||
			w.Header().Get("X-Content-Type-Options") != "nosniff" {
			t.Fatalf("%s: %d %v", page, w.Code, w.Header())
		}
		if !strings.Contains(body, `<meta name="viewport" content="width=device-width, initial-scale=1">`) ||
			!strings.Contains(body, docsVersion) {
			t.Errorf("%s lacks the viewport or the version", page)
		}
		if policy := w.Header().Get("Content-Security-Policy"); strings.Contains(policy, "script-src") ||
			!strings.HasPrefix(policy, "default-src 'self';") {
			t.Errorf("%s: policy %q allows inline scripts or other hosts", page, policy)
		}
		for _, asset := range loads.FindAllStringSubmatch(body, -1) {
			if got := fetch(t, h, asset[1]); !strings.HasPrefix(asset[1], "/docs/") || got.Code != http.StatusOK ||
				got.Body.Len() == 0 {
				t.Errorf("%s loads %s: %d", page, asset[1], got.Code)
			}
		}
	}
	for _, path := range []string{"/docs/nothing", "/docs/nothing/at/all"} {
		w := httptest.NewRecorder()
		r := httptest.NewRequest(http.MethodGet, path, nil)
		r.Header.Set("Accept", "text/html,application/xhtml+xml,*/*;q=0.8") // a browser's
		h.ServeHTTP(w, r)
		if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), `<nav aria-label="Documentation">`) {
			t.Errorf("%s in a browser: %d %.80s", path, w.Code, w.Body)
		}
		if w := fetch(t, h, path); w.Code != http.StatusNotFound ||
			!strings.Contains(w.Header().Get("Content-Type"), "problem") {
			t.Errorf("%s in a program: %d %v", path, w.Code, w.Header())
		}
	}
}

func TestDocs_serve_the_samples_as_text(t *testing.T) {
	t.Parallel()
	h := docsService(t)
	pages := ""
	for _, page := range docsPages {
		pages += fetch(t, h, page).Body.String()
	}
	for name, first := range map[string]string{"receiver.go": "// Command receiver", "receiver.py": "# A receiver",
		"receiver.mjs": "// A receiver", "supplier.py": `"""A supplier`, "supplier.ts": "// A supplier", "hub.ts": ""} {
		w := fetch(t, h, "/docs/"+name)
		if w.Code != http.StatusOK || w.Header().Get("Content-Type") != "text/plain; charset=utf-8" || w.Body.Len() < 500 ||
			!strings.HasPrefix(w.Body.String(), first) {
			t.Errorf("%s: %d %v %.60q", name, w.Code, w.Header(), w.Body.String())
		}
		if !strings.Contains(pages, `href="/docs/`+name+`"`) {
			t.Errorf("no page links to %s", name)
		}
	}
}

func TestDocs_links_lead_somewhere(t *testing.T) {
	t.Parallel()
	h := docsService(t)
	link := regexp.MustCompile(`<a[^>]* href="(/docs[^"]*)"`)
	found := 0
	for _, page := range docsPages {
		for _, match := range link.FindAllStringSubmatch(fetch(t, h, page).Body.String(), -1) {
			found++
			path, section, _ := strings.Cut(match[1], "#")
			target := fetch(t, h, path)
			if target.Code != http.StatusOK || section != "" && !strings.Contains(target.Body.String(), `id="`+section+`"`) {
				t.Errorf("%s links to %s: %d", page, match[1], target.Code)
			}
		}
	}
	if found < 20 {
		t.Errorf("only %d links", found)
	}
}

func TestDocs_every_kind_of_error_has_a_type_that_leads_to_its_section(t *testing.T) {
	t.Parallel()
	h := docsService(t)
	page := fetch(t, h, "/docs/errors").Body.String()
	for kind := errs.Internal; kind <= errs.Unavailable; kind++ {
		engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
		engine.GET("/", httpapi.Handle(func(*gin.Context) error { return errs.New(kind, "No.") }))
		w := fetch(t, engine, "/")
		problem := struct{ Type string }{}
		if err := json.Unmarshal(w.Body.Bytes(), &problem); err != nil {
			t.Fatal(err)
		}
		path, section, _ := strings.Cut(problem.Type, "#")
		if path != "/docs/errors" || !strings.Contains(page, `<section id="`+section+`">`+"\n<h2>"+fmt.Sprint(w.Code)+" ") {
			t.Errorf("%d has the type %q, which points at no section", w.Code, problem.Type)
		}
	}
}

func TestDocs_example_of_a_signature_is_right(t *testing.T) {
	t.Parallel()
	page := strings.ReplaceAll(fetch(t, docsService(t), "/docs/webhooks").Body.String(), "&#43;", "+")
	values := regexp.MustCompile(`secret <code>(\S+)</code>, id <code>(\S+)</code>, timestamp <code>1763640000</code>, ` +
		`body\s+<code>(\S+)</code> give <code>(\S+)</code>`).FindStringSubmatch(page)
	if values == nil {
		t.Fatal("the page has no example")
	}
	secret, err := webhook.ParseSecret(values[1])
	if err != nil {
		t.Fatal(err)
	}
	if got := webhook.Sign(values[2], time.Unix(1763640000, 0), []byte(values[3]), secret); got != values[4] {
		t.Errorf("the page says %s, right is %s", values[4], got)
	}
}

func TestOpenAPI_carries_the_version_of_the_build(t *testing.T) {
	t.Parallel()
	var document struct {
		Info struct{ Version string }
	}
	if err := json.Unmarshal(fetch(t, docsService(t), "/openapi.json").Body.Bytes(), &document); err != nil ||
		document.Info.Version != docsVersion {
		t.Errorf("%v, version %q", err, document.Info.Version)
	}
}

// A cache would keep the refusal of a moment for minutes, and a browser would take it for the document with that ETag.
func TestDocs_that_there_is_no_memory_for_are_unavailable_for_that_moment_alone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		engine := docsServiceWith(t, httpapi.NewLedger(1<<16, 1<<16))
		paths := []string{"/openapi.json", "/docs/swagger-ui.css", "/docs/swagger-ui-bundle.js"}
		bodytest.WhileHeld(t, engine, "", func() {
			for _, path := range paths {
				w := fetch(t, engine, path)
				if h := w.Header(); w.Code != http.StatusServiceUnavailable || h.Get("Retry-After") != "1" ||
					h.Get("Cache-Control") != "" || h.Get("ETag") != "" || h.Get("Content-Type") != "application/problem+json" {
					t.Errorf("%s: %d %v", path, w.Code, h)
				}
			}
		})
		for _, path := range paths {
			if w := fetch(t, engine, path); w.Code != http.StatusOK || w.Header().Get("ETag") == "" ||
				!strings.HasPrefix(w.Header().Get("Cache-Control"), "public") {
				t.Errorf("%s with memory: %d %v", path, w.Code, w.Header())
			}
		}
	})
}

func TestDocs_show_a_whole_game_as_the_reference_has_it(t *testing.T) {
	t.Parallel()
	h := docsService(t)
	_, block, _ := strings.Cut(fetch(t, h, "/docs/scoreboard").Body.String(), `<pre id="game"><code>`)
	block, _, _ = strings.Cut(block, "</code>")
	var shown any
	if err := json.Unmarshal([]byte(html.UnescapeString(block)), &shown); err != nil {
		t.Fatal(err)
	}
	var document struct {
		Components struct {
			Schemas map[string]struct {
				Example any `json:"example"`
			} `json:"schemas"`
		} `json:"components"`
	}
	if err := json.Unmarshal(fetch(t, h, "/openapi.json").Body.Bytes(), &document); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(document.Components.Schemas["Game"].Example, shown); diff != "" {
		t.Errorf("the page differs from the reference's example (-reference +page):\n%s", diff)
	}
}
