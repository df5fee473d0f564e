package portal

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// links are the sessions of a service in which each link belongs to the supplier of its name and works once.
type links map[string]bool

func (l links) OpenPortal(_ context.Context, link, _ string) (supplierauth.PortalSession, error) {
	if !l[link] {
		return supplierauth.PortalSession{}, errs.New(errs.Unauthenticated, "used")
	}
	delete(l, link)
	return supplierauth.PortalSession{SupplierID: link, Token: "session of " + link}, nil
}

func (l links) PortalLinkOwner(_ context.Context, link string) (string, error) {
	if !l[link] {
		return "", nil
	}
	return link, nil
}

func (links) NewPortalLink(context.Context, string, bool) (token string, expires time.Time, err error) {
	return "", time.Time{}, nil
}

func (links) PortalPrincipal(context.Context, string) (p caller.Principal, err error) { return p, nil }
func (links) ClosePortal(context.Context, string) error                               { return nil }

func newDoor(t *testing.T, l links) http.Handler {
	t.Helper()
	s, err := New(Deps{Sessions: l})
	if err != nil {
		t.Fatal(err)
	}
	gin.SetMode(gin.ReleaseMode)
	engine := gin.New()
	engine.GET("/portal/sign-in", s.Page(s.SignIn))
	engine.POST("/portal/sign-in", s.Page(s.ConfirmSignIn))
	return engine
}

func follow(door http.Handler, method, supplier string, headers ...string) *httptest.ResponseRecorder {
	form := url.Values{"token": {supplier}}.Encode()
	r := httptest.NewRequest(method, "http://localhost/portal/sign-in?"+form, strings.NewReader(form))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	door.ServeHTTP(w, r)
	return w
}

func TestPortalLink_survives_who_looks_at_it_before_its_reader(t *testing.T) {
	t.Parallel()
	const firefox = "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0"
	l := links{"acme": true}
	door := newDoor(t, l)
	for name, headers := range map[string][]string{
		"Slack":    {"User-Agent", "Slackbot-LinkExpanding 1.0 (+https://api.slack.com/robots)"},
		"Teams":    {"User-Agent", "Mozilla/5.0 (Windows NT 6.1; WOW64) SkypeUriPreview Preview/0.5"},
		"Facebook": {"User-Agent", "facebookexternalhit/1.1"},
		"WhatsApp": {"User-Agent", "WhatsApp/2.23.20.0"},
		"an image": {"User-Agent", firefox, "Sec-Fetch-Dest", "image", "Sec-Fetch-Site", "cross-site"},
		"a script": {"User-Agent", firefox, "Sec-Fetch-Dest", "empty", "Sec-Fetch-Site", "cross-site"},
		"a frame":  {"User-Agent", firefox, "Sec-Fetch-Dest", "iframe"},
		"a prefetch": {"User-Agent", firefox, "Sec-Fetch-Dest", "document", "Sec-Purpose",
			"prefetch;prerender"},
		"a program with another's name": {"User-Agent", firefox},
		"a program":                     nil,
		"a fetch of a document":         {"User-Agent", firefox, "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode", "cors"},
	} {
		w := follow(door, http.MethodGet, "acme", headers...)
		if !l["acme"] || len(w.Result().Cookies()) > 0 || w.Code >= 300 {
			t.Fatalf("%s uses the link up: %d", name, w.Code)
		}
		if w.Code == http.StatusOK && !strings.Contains(w.Body.String(), `<form method="post" action="/portal/sign-in"`) {
			t.Errorf("%s sees no button: %s", name, w.Body)
		}
		if policy := w.Header().Get("Referrer-Policy"); w.Code == http.StatusOK && policy != "no-referrer" {
			t.Errorf("%s: the page whose address is a secret has the policy %q", name, policy)
		}
	}
	for _, site := range []string{"cross-site", "same-site", "none"} {
		if w := follow(door, http.MethodPost, "acme", "Sec-Fetch-Site", site); w.Code != http.StatusForbidden || !l["acme"] {
			t.Errorf("a form from %s signs in: %d", site, w.Code)
		}
	}
	for name, open := range map[string]func() *httptest.ResponseRecorder{
		"a browser": func() *httptest.ResponseRecorder {
			return follow(door, http.MethodGet, "acme", "User-Agent", firefox, "Sec-Fetch-Dest", "document",
				"Sec-Fetch-Mode", "navigate", "Sec-Fetch-Site", "cross-site")
		},
		"the button without a script": func() *httptest.ResponseRecorder {
			return follow(door, http.MethodPost, "acme", "Sec-Fetch-Site", "same-origin")
		},
		"the button of an old browser": func() *httptest.ResponseRecorder { return follow(door, http.MethodPost, "acme") },
		"the button": func() *httptest.ResponseRecorder {
			return follow(door, http.MethodPost, "acme", "X-Page-Request", "1", "Sec-Fetch-Site", "same-origin")
		},
	} {
		l["acme"] = true
		if w := open(); l["acme"] || len(w.Result().Cookies()) != 2 || w.Code >= 400 {
			t.Errorf("%s is not signed in: %d", name, w.Code)
		}
	}
}

func TestPortalLink_of_another_supplier_asks_before_it_replaces_a_session(t *testing.T) {
	t.Parallel()
	l := links{"acme": true, "attacker": true}
	door := newDoor(t, l)
	var cookies []string
	for _, c := range follow(door, http.MethodGet, "acme", "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode",
		"navigate").Result().Cookies() {
		if c.SameSite == http.SameSiteLaxMode { // the only one that comes along from another site
			cookies = append(cookies, c.Name+"="+c.Value)
		}
	}
	fromMail := []string{"Cookie", strings.Join(cookies, "; "), "Sec-Fetch-Dest", "document", "Sec-Fetch-Mode",
		"navigate", "Sec-Fetch-Site", "cross-site"}
	w := follow(door, http.MethodGet, "attacker", fromMail...)
	if !l["attacker"] || len(w.Result().Cookies()) > 0 || !strings.Contains(w.Body.String(), "another supplier") {
		t.Fatalf("the session is replaced unasked: %d %s", w.Code, w.Body)
	}
	l["acme"] = true
	if w := follow(door, http.MethodGet, "acme", fromMail...); l["acme"] || w.Code != http.StatusOK {
		t.Errorf("a link of the same supplier asks: %d", w.Code)
	}
	w = follow(door, http.MethodPost, "attacker", "Cookie", cookies[0], "X-Page-Request", "1")
	if l["attacker"] || len(w.Result().Cookies()) != 2 {
		t.Errorf("who says yes is not signed in: %d", w.Code)
	}
}

func TestLink_of_a_call_whose_Host_names_nothing_is_refused_as_the_caller_s_fault(t *testing.T) {
	t.Parallel()
	for _, host := range []string{"", ":80", "a:b", "%zz", "[::1"} {
		if _, err := NewLink(t.Context(), links{}, "sup_1", "http://"+host); errs.KindOf(err) != errs.Invalid {
			t.Errorf("%q: %v", host, err)
		}
	}
	if link, err := NewLink(t.Context(), links{}, "sup_1", "http://hub.example:80"); err != nil ||
		!strings.HasPrefix(link.URL, "http://hub.example:80/portal/sign-in?token=") {
		t.Errorf("%+v %v", link, err)
	}
}

func TestPortalLink_that_was_used_is_said_so_on_a_page_where_no_script_runs(t *testing.T) {
	t.Parallel()
	door := newDoor(t, links{})
	w := follow(door, http.MethodPost, "acme", "Sec-Fetch-Site", "same-origin")
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("Content-Type"), "text/html") ||
		!strings.Contains(w.Body.String(), "<h1") {
		t.Errorf("without a script: %d %v %s", w.Code, w.Header(), w.Body)
	}
	w = follow(door, http.MethodPost, "acme", "X-Page-Request", "1", "Sec-Fetch-Site", "same-origin")
	if w.Code != http.StatusUnauthorized || !strings.Contains(w.Header().Get("Content-Type"), "json") {
		t.Errorf("with one: %d %v", w.Code, w.Header())
	}
}

func TestPages_say_when_to_come_back(t *testing.T) {
	t.Parallel()
	s, err := New(Deps{})
	if err != nil {
		t.Fatal(err)
	}
	engine := httpapi.NewEngine(httpapi.EngineConfig{Log: slog.New(slog.DiscardHandler)})
	engine.Any("/portal", s.Page(func(*gin.Context) error { return errs.NewUnavailable("No.", 3*time.Second, nil) }))
	for _, method := range []string{http.MethodGet, http.MethodPost} {
		w := httptest.NewRecorder()
		engine.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), method, "/portal", nil))
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") != "3" {
			t.Errorf("%s: %d, %v", method, w.Code, w.Header())
		}
	}
}
