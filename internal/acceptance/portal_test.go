package acceptance

import (
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

const portalSessions = "/api/portal-sessions"

type portalLink struct {
	URL       string
	ExpiresAt time.Time `json:"expires_at"`
}

// portalLinkOf is a new link into the portal.
func portalLinkOf(t *testing.T, s *apptest.Supplier) string {
	t.Helper()
	a := s.Do(t, http.MethodPost, portalSessions, nil)
	want(t, a, http.StatusCreated)
	return apptest.Decode[portalLink](t, a).URL
}

// visit is a call as a browser makes it: no redirect is followed. Pages are not in the OpenAPI document.
func visit(t *testing.T, method, address, cookie string, headers ...string) apptest.Answer {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), method, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	if cookie != "" {
		r.Header.Set("Cookie", cookie)
	}
	if method == http.MethodGet {
		r.Header.Set("Sec-Fetch-Mode", "navigate")
		r.Header.Set("Sec-Fetch-Dest", "document")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	client := http.Client{Timeout: time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return apptest.Answer{Status: response.StatusCode, Header: response.Header, Body: body}
}

// sessionOf is the cookie of a link's answer as a browser sends it back; empty for none.
func sessionOf(a apptest.Answer) string {
	for _, cookie := range (&http.Response{Header: a.Header}).Cookies() {
		if strings.Contains(cookie.Name, "portal") && cookie.MaxAge > 0 {
			return cookie.Name + "=" + cookie.Value
		}
	}
	return ""
}

// signIn is the cookie of a new session.
func signIn(t *testing.T, s *apptest.Supplier) string {
	t.Helper()
	cookie := sessionOf(visit(t, http.MethodGet, portalLinkOf(t, s), ""))
	if cookie == "" {
		t.Fatal("the link opened no session")
	}
	return cookie
}

// fromPage is the header that the page's script sends.
var fromPage = [2]string{"X-Page-Request", "1"}

func portalRules(t *testing.T, h *apptest.Hub) {
	page := func(path string) string { return h.URL(0, "/portal"+path) }

	rule(t, "a link begins a session of an hour with a strict cookie, and opens the portal", func(t *testing.T) {
		s := h.Supplier(t)
		link := apptest.Decode[portalLink](t, s.Do(t, http.MethodPost, portalSessions, nil))
		if left := time.Until(link.ExpiresAt); left > 5*time.Minute || left < 4*time.Minute ||
			!strings.HasPrefix(link.URL, h.URL(0, "/portal")) {
			t.Errorf("%s for %s", link.URL, left)
		}
		a := visit(t, http.MethodGet, link.URL, "")
		if a.Status != 303 || a.Header.Get("Location") != "/portal" {
			t.Fatalf("%d to %q", a.Status, a.Header.Get("Location"))
		}
		set := a.Header.Get("Set-Cookie")
		for _, attribute := range []string{"HttpOnly", "SameSite=Strict", "Max-Age=3600", "Path=/"} {
			if !strings.Contains(set, attribute) {
				t.Errorf("the cookie is not %s", attribute)
			}
		}
		if strings.Contains(set, "Secure") {
			t.Error("a cookie for https alone is lost on http and loopback")
		}
		want(t, visit(t, http.MethodGet, page(""), sessionOf(a)), 200)
	})
	rule(t, "a link from another site works: the page itself goes on, as a strict cookie does not follow its redirect",
		func(t *testing.T) {
			a := visit(t, http.MethodGet, portalLinkOf(t, h.Supplier(t)), "", "Sec-Fetch-Site", "cross-site")
			if a.Status != 200 || !strings.HasSuffix(a.Header.Get("Refresh"), "/portal") || sessionOf(a) == "" {
				t.Errorf("%d, Refresh %q", a.Status, a.Header.Get("Refresh"))
			}
		})
	rule(t, "a link works once, however many follow it at once on any replica; looking at it does not use it up",
		func(t *testing.T) {
			link, err := url.Parse(portalLinkOf(t, h.Supplier(t)))
			if err != nil {
				t.Fatal(err)
			}
			looked, scanned := visit(t, http.MethodHead, link.String(), ""), visit(t, http.MethodGet, link.String(), "",
				"Sec-Fetch-Mode", "")
			wantEmpty(t, looked, scanned.Status)
			for _, name := range []string{"Content-Type", "Content-Length", "Referrer-Policy"} {
				if got := looked.Header.Get(name); got == "" || got != scanned.Header.Get(name) {
					t.Errorf("HEAD has %s %q, GET %q", name, got, scanned.Header.Get(name))
				}
			}
			want(t, visit(t, http.MethodGet, link.String(), "", "Sec-Purpose", "prefetch"), 204)
			var group sync.WaitGroup
			var opened atomic.Int64
			for i := range 16 {
				group.Go(func() {
					if sessionOf(visit(t, http.MethodGet, h.URL(i, link.RequestURI()), "")) != "" {
						opened.Add(1)
					}
				})
			}
			group.Wait()
			if opened.Load() != 1 {
				t.Errorf("%d sessions", opened.Load())
			}
			again := visit(t, http.MethodGet, link.String(), "")
			if again.Status != 401 || sessionOf(again) != "" || !strings.Contains(string(again.Body), "does not work any more") {
				t.Errorf("%d %s", again.Status, again.Body)
			}
		})
	rule(t, "the language can be switched at a link's target, which does not use it up", func(t *testing.T) {
		link := portalLinkOf(t, h.Supplier(t))
		a := visit(t, http.MethodGet, link+"&lang=pt", "")
		if want(t, a, 303); !strings.HasSuffix(link, a.Header.Get("Location")) || sessionOf(a) != "" {
			t.Errorf("it points at %q", a.Header.Get("Location"))
		}
		want(t, visit(t, http.MethodGet, page("/nowhere?lang=pt"), ""), 404)
		want(t, visit(t, http.MethodGet, link, ""), 303)
		used := visit(t, http.MethodGet, link, "supplyhub_language=pt")
		if want(t, used, 401); !strings.Contains(string(used.Body), "Este link") {
			t.Errorf("%s", used.Body)
		}
	})
	rule(t, "a link's token is no session and a session's is no link", func(t *testing.T) {
		s := h.Supplier(t)
		link, err := url.Parse(portalLinkOf(t, s))
		if err != nil {
			t.Fatal(err)
		}
		want(t, visit(t, http.MethodGet, page(""), "supplyhub_portal="+link.Query().Get("token")), 401)
		_, token, _ := strings.Cut(signIn(t, s), "=")
		want(t, visit(t, http.MethodGet, page("/sign-in?token="+token), ""), 401)
		want(t, visit(t, http.MethodGet, page("/sign-in?token="), ""), 401)
		want(t, visit(t, http.MethodGet, page("/sign-in"), ""), 401)
	})
	rule(t, "no page can be framed, stored or named to another site, whatever its status", func(t *testing.T) {
		cookie := signIn(t, h.Supplier(t, "--scopes", "webhooks"))
		for path, status := range map[string]int{"": 200, "/requests": 403, "/deliveries/x": 404, "/nowhere": 404,
			"/deliveries?limit=0": 400, "/deliveries?status=%zz": 400, "/deliveries?a=1;b=2&lang=pt": 400,
			"/deliveries?cursor=x": 400, "/sign-in?token=x": 401} {
			a := visit(t, http.MethodGet, page(path), cookie)
			want(t, a, status)
			if policy := a.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "frame-ancestors 'none'") ||
				!strings.Contains(policy, "base-uri 'none'") ||
				a.Header.Get("Cache-Control") != "no-store" || a.Header.Get("X-Content-Type-Options") != "nosniff" ||
				!strings.Contains("no-referrer same-origin", a.Header.Get("Referrer-Policy")) {
				t.Errorf("%s: %v", path, a.Header)
			}
		}
		link := visit(t, http.MethodGet, portalLinkOf(t, h.Supplier(t)), "")
		if link.Header.Get("Cache-Control") != "no-store" || link.Header.Get("Referrer-Policy") != "no-referrer" {
			t.Errorf("the link's answer: %v", link.Header)
		}
	})
	rule(t, "an action of a page that is another supplier's, as whom the browser was signed in before, is refused",
		func(t *testing.T) {
			s, other := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL), h.Supplier(t)
			cookie := signIn(t, s)
			pause := func(of string, status int) {
				t.Helper()
				want(t, visit(t, http.MethodPost, page("/receiver/pause"), cookie, fromPage[0], fromPage[1], "X-Page-Of", of),
					status)
			}
			pause(other.ID, 403)
			if r := receiverOf(t, s); r.State != "active" {
				t.Errorf("the receiver is %s", r.State)
			}
			pause(s.ID, 200)
			if a := visit(t, http.MethodGet, page("/deliveries?status=dead"), cookie); !strings.Contains(string(a.Body),
				`<input type="hidden" name="status" value="dead">`) || !strings.Contains(string(a.Body), `data-of="`+s.ID+`"`) {
				t.Errorf("the page does not keep its status, or say whose it is: %s", a.Body)
			}
		})
	rule(t, "a table links to its next page with the same filters, each row once, and back to the newest",
		func(t *testing.T) {
			s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
			var ids []string
			for range 5 {
				id := submit(t, s, nil)
				becomes(t, s, id, "estimated")
				ids = append([]string{fmt.Sprint(id)}, ids...)
			}
			reaches(t, s, "delivered", 5)
			cookie := signIn(t, s)
			for table, row := range map[string]*regexp.Regexp{
				"/requests?status=estimated&limit=2": regexp.MustCompile(`href="/portal/requests/(\d+)"`),
				"/deliveries?status=delivered&limit=2&since=2020-01-01T00:00:00Z": regexp.MustCompile(
					`href="/portal/deliveries/[^>]+>Webhook for request (\d+)`),
			} {
				var shown []string
				for address, pages := "/portal"+table, 1; ; pages++ {
					a := visit(t, http.MethodGet, h.URL(pages, address), cookie)
					want(t, a, 200)
					for _, found := range row.FindAllStringSubmatch(string(a.Body), -1) {
						shown = append(shown, found[1])
					}
					newest := strings.Contains(string(a.Body), ">Newest</a>")
					next := regexp.MustCompile(`rel="next" href="([^"]+)"`).FindStringSubmatch(string(a.Body))
					if newest == (pages == 1) || (next == nil) != (pages == 3) || pages > 3 {
						t.Fatalf("page %d links to %q and to the newest: %t", pages, next, newest)
					}
					if next == nil {
						break
					}
					address = html.UnescapeString(next[1])
				}
				if !slices.Equal(shown, ids) {
					t.Errorf("%s shows %v, want %v", table, shown, ids)
				}
			}
		})
	rule(t, "without a session every page is a 401 that says how to get one", func(t *testing.T) {
		for _, path := range []string{"", "/requests", "/requests/1", "/deliveries", "/deliveries/x", "/receiver"} {
			for _, cookie := range []string{"", "supplyhub_portal=unknown", "supplyhub_portal="} {
				if a := visit(t, http.MethodGet, page(path), cookie); a.Status != 401 ||
					!strings.Contains(string(a.Body), portalSessions) {
					t.Errorf("%s: %d", path, a.Status)
				}
			}
		}
		want(t, visit(t, http.MethodPost, page("/receiver/pause"), "", fromPage[0], fromPage[1]), 401)
	})
	rule(t, "a session chosen by another party is never adopted, and the former one ends at sign-in", func(t *testing.T) {
		s := h.Supplier(t)
		former := signIn(t, s)
		a := visit(t, http.MethodGet, portalLinkOf(t, s), former)
		if got := sessionOf(a); got == "" || got == former {
			t.Errorf("the session after sign-in is %q", got)
		}
		want(t, visit(t, http.MethodGet, page(""), former), 401)
		chosen := "supplyhub_portal=" + strings.Repeat("a", 26)
		if got := sessionOf(visit(t, http.MethodGet, portalLinkOf(t, s), chosen)); got == chosen {
			t.Error("the caller's own cookie became a session")
		}
		want(t, visit(t, http.MethodGet, page(""), chosen), 401)
		mine := signIn(t, s)
		want(t, visit(t, http.MethodGet, page(""), mine+"; "+chosen), 401) // one of the two was planted
	})
	rule(t, "a change without the page's header, or from another site, is a 403 and changes nothing", func(t *testing.T) {
		s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
		cookie := signIn(t, s)
		for _, path := range []string{
			"/portal/receiver", "/portal/receiver/pause", "/portal/receiver/resume", "/portal/receiver/test",
			"/portal/receiver/rotate-secret", "/portal/receiver/remove",
			"/portal/deliveries/x/redeliver", "/portal/deliveries/redeliver", "/portal/requests/1/choose",
			"/portal/requests/1/re-estimate", "/portal/sign-out",
			receiverPath + "/pause", receiverPath + "/rotate-secret", receiverPath + "/test", deliveriesPath +
				"/redeliver", deliveriesPath + "/x/redeliver",
		} {
			want(t, visit(t, http.MethodPost, h.URL(0, path), cookie), 403)
			want(t, visit(t, http.MethodPost, h.URL(0, path), cookie, fromPage[0], fromPage[1], "Sec-Fetch-Site", "cross-site"),
				403)
			want(t, visit(t, http.MethodPost, h.URL(0, path), cookie, fromPage[0], fromPage[1], "Sec-Fetch-Site", "same-site"),
				403)
		}
		wantEmpty(t, visit(t, http.MethodPost, h.URL(0, receiverPath+"/pause"), cookie), 403)
		want(t, visit(t, http.MethodGet, page(""), cookie), 200)
		if r := receiverOf(t, s); r.State != "active" || len(r.Secrets) != 1 {
			t.Errorf("%+v", r)
		}
		want(t, visit(t, http.MethodPost, h.URL(0, "/portal/receiver/pause"), cookie, fromPage[0], fromPage[1]), 200)
		if r := receiverOf(t, s); r.State != "paused" {
			t.Errorf("%+v", r)
		}
	})
	rule(t, "the API's own routes take the session too; of a token and a cookie the token decides", func(t *testing.T) {
		s, other := h.Supplier(t), h.Supplier(t, "--webhook-url", "http://127.0.0.1:1")
		cookie := signIn(t, s)
		for i := range 2 { // any replica
			want(t, h.DoAt(t, i, http.MethodGet, receiverPath, nil, "Cookie", cookie), 200)
			want(t, h.DoAt(t, i, http.MethodGet, deliveriesPath, nil, "Cookie", cookie), 200)
		}
		want(t, h.Do(t, http.MethodPut, receiverPath, object{"url": "http://127.0.0.1:2"}, "Cookie", cookie, fromPage[0],
			fromPage[1]), 200)
		r := apptest.Decode[receiverState](t, other.Do(t, http.MethodGet, receiverPath, nil, "Cookie", cookie))
		if *r.URL != "http://127.0.0.1:1" {
			t.Errorf("the cookie decided: %+v", r)
		}
		wantEmpty(t, h.Do(t, http.MethodGet, receiverPath, nil, "Cookie", cookie, "Authorization", "Bearer nonsense"), 401)
		wantEmpty(t, h.Do(t, http.MethodGet, receiverPath, nil, "Cookie", "supplyhub_portal=unknown"), 401)
		wantEmpty(t, h.Do(t, http.MethodGet, requests, nil, "Cookie", cookie), 401)
		wantEmpty(t, h.Do(t, http.MethodPost, portalSessions, nil, "Cookie", cookie), 401)
	})
	rule(t, "sign-out, deactivation and supplier revoke-sessions end the session", func(t *testing.T) {
		s := h.Supplier(t)
		for name, end := range map[string]func(cookie string){
			"sign-out": func(cookie string) {
				want(t, visit(t, http.MethodPost, page("/sign-out"), cookie, fromPage[0], fromPage[1]), 200)
			},
			"revoke-sessions": func(string) { apptest.MustCommand[object](t, h, "supplier", "revoke-sessions", s.ID) },
			"deactivation":    func(string) { apptest.MustCommand[object](t, h, "supplier", "deactivate", s.ID) },
		} {
			cookie, link := signIn(t, s), portalLinkOf(t, s)
			want(t, visit(t, http.MethodGet, page(""), cookie), 200)
			end(cookie)
			if a := visit(t, http.MethodGet, page(""), cookie); a.Status != 401 {
				t.Errorf("after %s: %d", name, a.Status)
			}
			if a := visit(t, http.MethodGet, link, ""); name != "sign-out" && a.Status != 401 {
				t.Errorf("a link after %s: %d", name, a.Status)
			}
			apptest.MustCommand[object](t, h, "supplier", "activate", s.ID)
			if a := visit(t, http.MethodGet, page(""), cookie); a.Status != 401 {
				t.Errorf("after %s and activation: %d", name, a.Status)
			}
		}
	})
	rule(t, "another supplier's requests and deliveries are not there", func(t *testing.T) {
		s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
		id := submit(t, s, nil)
		sent := reaches(t, s, "delivered", 1)[0].ID
		mine, stranger := signIn(t, s), signIn(t, h.Supplier(t))
		for _, path := range []string{strings.TrimPrefix(requestPath(id), "/api/material-"), "deliveries/" + sent} {
			path = "/" + strings.TrimPrefix(path, "/")
			want(t, visit(t, http.MethodGet, page(path), mine), 200)
			want(t, visit(t, http.MethodGet, page(path), stranger), 404)
		}
		want(t, visit(t, http.MethodPost, page("/deliveries/"+sent+"/redeliver"), stranger, fromPage[0], fromPage[1]), 404)
		if a := visit(t, http.MethodGet, page("/deliveries"), stranger); strings.Contains(string(a.Body), sent) {
			t.Error("another supplier's delivery is listed")
		}
	})
	rule(t, "a supplier without the scope material-requests sees no requests", func(t *testing.T) {
		cookie := signIn(t, h.Supplier(t, "--scopes", "webhooks"))
		shown := visit(t, http.MethodGet, page("/deliveries"), cookie)
		if want(t, shown, 200); strings.Contains(string(shown.Body), `href="/portal/requests"`) {
			t.Error("the navigation has the requests")
		}
		want(t, visit(t, http.MethodGet, page("/requests?status=%zz"), cookie), 403)
		want(t, visit(t, http.MethodPost, page("/requests/1/choose"), cookie, fromPage[0], fromPage[1]), 403)
	})
	rule(t, "a supplier without the scope webhooks sees and changes nothing of a receiver, and begins at its requests",
		func(t *testing.T) {
			s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
			id := submit(t, s, nil)
			sent := reaches(t, s, "delivered", 1)[0].ID
			cookie := signIn(t, s)
			apptest.MustCommand[object](t, h, "supplier", "update", s.ID, "--scopes", "material-requests")
			for _, path := range []string{"/receiver", "/deliveries", "/deliveries/" + sent} {
				want(t, visit(t, http.MethodGet, page(path), cookie), 403)
			}
			for _, path := range []string{"/receiver", "/receiver/remove", "/receiver/rotate-secret",
				"/receiver/pause", "/receiver/resume", "/receiver/test", "/deliveries/redeliver",
				"/deliveries/" + sent + "/redeliver"} {
				want(t, visit(t, http.MethodPost, page(path), cookie, fromPage[0], fromPage[1]), 403)
			}
			first := visit(t, http.MethodGet, page(""), cookie)
			if want(t, first, 303); first.Header.Get("Location") != "/portal/requests" {
				t.Errorf("the first page redirects to %q", first.Header.Get("Location"))
			}
			want(t, visit(t, http.MethodGet, page("/requests"), cookie), 200)
			shown := visit(t, http.MethodGet, page("/requests/"+fmt.Sprint(id)), cookie)
			if want(t, shown, 200); strings.Contains(string(shown.Body), sent) {
				t.Error("the request's page shows a delivery")
			}
			if strings.Contains(string(shown.Body), `href="/portal/deliveries"`) {
				t.Error("the navigation has the deliveries")
			}
			apptest.MustCommand[object](t, h, "supplier", "update", s.ID, "--scopes", "products")
			none := visit(t, http.MethodGet, page(""), cookie)
			if want(t, none, 403); !strings.Contains(string(none.Body), "None of your permissions opens a page") ||
				!strings.Contains(string(none.Body), "Sign out") || strings.Contains(string(none.Body), "Back to the first page") {
				t.Errorf("without any page: %s", none.Body)
			}
			apptest.MustCommand[object](t, h, "supplier", "update", s.ID, "--scopes", "webhooks")
			delivery := visit(t, http.MethodGet, page("/deliveries/"+sent), cookie)
			if want(t, delivery, 200); strings.Contains(string(delivery.Body), `href="/portal/requests`) {
				t.Error("the delivery's page has a link to its request")
			}
			apptest.MustCommand[object](t, h, "supplier", "update", s.ID, "--scopes", "material-requests,webhooks")
			want(t, visit(t, http.MethodGet, page(""), cookie), 200)
			if r := receiverOf(t, s); r.State != "active" {
				t.Errorf("%+v", r)
			}
		})
	rule(t, "pages allow nothing inline, speak the reader's language and are never stored", func(t *testing.T) {
		cookie := signIn(t, h.Supplier(t))
		english, portuguese := visit(t, http.MethodGet, page("/receiver"), cookie),
			visit(t, http.MethodGet, page("/receiver"), cookie, "Accept-Language", "pt-BR")
		policy := english.Header.Get("Content-Security-Policy")
		if policy == "" || strings.Contains(policy, "unsafe") || english.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("policy %q", policy)
		}
		if !strings.Contains(string(english.Body), `<html lang="en">`) ||
			!strings.Contains(string(portuguese.Body), `<html lang="pt">`) ||
			!strings.Contains(string(portuguese.Body), "Receptor") {
			t.Error("the language is not the reader's")
		}
	})
	rule(t, "the operator makes a link to pass on", func(t *testing.T) {
		s := h.Supplier(t)
		if _, errOut, code := h.Command(t, "supplier", "portal-link", "sup_unknown"); code != 1 || errOut == "" {
			t.Errorf("an unknown supplier: %d %q", code, errOut)
		}
		if _, errOut, code := h.Command(t, "supplier", "portal-link", s.ID); code != 1 ||
			!strings.Contains(errOut, "PUBLIC_URL") {
			t.Errorf("without a known address: %d %q", code, errOut)
		}
	})
	rule(t, "nothing of a link or a session reaches a log", func(t *testing.T) {
		s := h.Supplier(t)
		link, err := url.Parse(portalLinkOf(t, s))
		if err != nil {
			t.Fatal(err)
		}
		cookie := sessionOf(visit(t, http.MethodGet, link.String(), ""))
		want(t, visit(t, http.MethodGet, page(""), cookie), 200)
		_, token, _ := strings.Cut(cookie, "=")
		for _, p := range h.APIs {
			if strings.Contains(p.Log(), token) || strings.Contains(p.Log(), link.Query().Get("token")) {
				t.Error("a log shows a link or a session")
			}
		}
	})
}

// TestPortal_behind_https holds what a loopback without TLS cannot show: PUBLIC_URL, its cookies, and receivers that
// must be public.
func TestPortal_behind_https(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1,
				Env: map[string]string{"PUBLIC_URL": "https://hub.example/", "WEBHOOK_ALLOW_PRIVATE": "false"}})
			rule(t, "links begin with PUBLIC_URL and their cookies are for https alone",
				func(t *testing.T) { secureLinks(t, h) })
			rule(t, "a receiver is https and public, by the rules of its creation; the refusal names no setting",
				func(t *testing.T) { publicReceivers(t, h) })
		})
	}
}

func secureLinks(t *testing.T, h *apptest.Hub) {
	s := h.Supplier(t)
	for _, link := range []string{portalLinkOf(t, s),
		apptest.MustCommand[portalLink](t, h, "supplier", "portal-link", s.ID).URL} {
		path, found := strings.CutPrefix(link, "https://hub.example/portal/")
		if !found {
			t.Fatalf("the link does not begin with PUBLIC_URL: %.40s", link)
		}
		a := visit(t, http.MethodGet, h.URL(0, "/portal/"+path), "")
		if set := a.Header.Get("Set-Cookie"); !strings.HasPrefix(set, "__Host-") || !strings.Contains(set, "Secure") {
			t.Errorf("the cookie is not for https alone")
		}
		cookie := sessionOf(a)
		want(t, visit(t, http.MethodGet, h.URL(0, "/portal"), cookie), 200)
		planted := strings.TrimPrefix(cookie, "__Host-") // as any host near this one can set it
		want(t, visit(t, http.MethodGet, h.URL(0, "/portal"), planted), 401)
		wantEmpty(t, h.Do(t, http.MethodGet, receiverPath, nil, "Cookie", planted), 401)
	}
}

func publicReceivers(t *testing.T, h *apptest.Hub) {
	s := h.Supplier(t)
	for address, taken := range map[string]bool{
		"https://hooks.example.com": true, "https://hooks.example.com:8443/a/b": true, "HTTPS://hooks.example.com": true,
		"http://hooks.example.com": false, "https://127.0.0.1": false, "https://[::1]:8443": false, "https://10.0.0.1": false,
		"https://169.254.169.254": false, "https://hooks.example.com:0": false,
	} {
		a := s.Do(t, http.MethodPut, receiverPath, object{"url": address})
		if taken {
			want(t, a, 200)
			continue
		}
		if p := wantProblem(t, a, 400, "/url"); strings.Contains(p.Errors[0].Detail, "WEBHOOK_ALLOW_PRIVATE") {
			t.Errorf("%s: a supplier reads about the operator's settings: %s", address, p.Errors[0].Detail)
		}
		_, _, code := h.Command(t, "supplier", "create", "--name", "x", "--webhook-url", address)
		if created := code == 0; created && !strings.HasPrefix(address, "http://") {
			t.Errorf("%s is taken at create and refused here", address)
		}
	}
}
