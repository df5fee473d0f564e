package acceptance

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/browser"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// words are what the portal says in one language.
type words struct {
	requests, deliveries, receiver, attempts, redeliver, recoverLost, sendTest, pause, resume, rotate, save, signOut,
	choose string
	status, since, until, pending, otherLanguage, otherRequests string
}

var (
	english = words{
		"Requests", "Deliveries", "Receiver", "Attempts", "Redeliver", "Recover", "Send test", "Pause", "Resume",
		"Rotate secret", "Save", "Sign out", "Choose",
		"Status", "Since", "Until", "Pending", "Português", "Solicitações",
	}
	portuguese = words{
		"Solicitações", "Entregas", "Receptor", "Tentativas", "Reenviar", "Recuperar", "Enviar teste", "Pausar", "Retomar",
		"Trocar segredo", "Salvar", "Sair", "Escolher",
		"Status", "Desde", "Até", "Pendente", "English", "Requests",
	}
)

// everywhere reports whether pages are walked in a browser on both stacks and in every size, as `make test-platforms`
// does. A walk takes a minute of a core, and the pages are the same: `make test` walks the console once as on a phone
// and the portal once as on a desktop, and tests their content over HTTP on both stacks.
func everywhere() bool { return os.Getenv("SUPPLYHUB_TEST_BROWSER") != "" }

func inBrowsers() []apptest.Stack {
	if everywhere() {
		return apptest.Stacks
	}
	return []apptest.Stack{apptest.Embedded}
}

// TestPortal_in_a_browser walks the portal by the keyboard alone, as a supplier does whose receiver was down.
func TestPortal_in_a_browser(t *testing.T) {
	t.Parallel()
	for _, stack := range inBrowsers() {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{Env: map[string]string{"WEBHOOK_RETRY_SCHEDULE": "100ms,100ms",
				"WEBHOOK_TIMEOUT": "2s"}})
			for _, c := range []struct {
				name string
				browser.Options
				words
				always bool
			}{
				{"English, 1280, light", browser.Options{Width: 1280, Language: "en", Zone: "Asia/Kathmandu", Scripts: true},
					english, true},
				{"Português, 390, dark", browser.Options{Width: 390, Language: "pt-BR", Zone: "America/Sao_Paulo", Dark: true,
					Scripts: true}, portuguese, everywhere()},
			} {
				if !c.always {
					continue
				}
				t.Run(c.name, func(t *testing.T) { walkPortal(t, h, browser.Start(t, c.Options), c.words, c.name) })
			}
		})
	}
}

// walkPortal is one supplier's visit. After each page nothing may have gone wrong on it.
func walkPortal(t *testing.T, h *apptest.Hub, b *browser.Browser, w words, name string) {
	receiver, status := switchable(t, 503)
	s := h.Supplier(t, "--webhook-url", receiver.URL)
	first := submit(t, s, nil)
	submit(t, s, nil)
	dead := reaches(t, s, "dead", 2)
	becomes(t, s, first, "estimated")

	link, err := url.Parse(portalLinkOf(t, s))
	if err != nil {
		t.Fatal(err)
	}
	looked := func(what string) {
		t.Helper()
		b.Until("the page fits its width", "document.documentElement.scrollWidth <= innerWidth")
		b.Screenshot(name + " " + what)
		b.Accessible()
		if faults := b.Faults(); len(faults) > 0 {
			t.Errorf("%s: %v", what, faults)
		}
	}
	b.Open(link.String())
	b.Until("the link opens the portal", `location.pathname === "/portal" && document.readyState === "complete"`)
	if n := b.Received(); n > 150<<10 {
		t.Errorf("the first load is %d bytes", n)
	}
	looked("overview")

	// find a dead delivery and redeliver it
	b.Press("link", w.deliveries, "\r")
	b.Has("table", w.deliveries)
	looked("deliveries")
	zone := map[string]time.Duration{english.requests: 5*time.Hour + 45*time.Minute,
		portuguese.requests: -3 * time.Hour}[w.requests]
	for _, d := range dead {
		at := d.CreatedAt.UTC().Add(zone).Format("15:04:05")
		b.Until("the time in the reader's zone, "+at,
			fmt.Sprintf(`document.querySelector("main tbody").innerText.includes(%q)`, at))
	}
	b.Press("link", strings.TrimSpace(firstLink(b, w.deliveries)), "\r")
	b.Has("table", w.attempts)
	looked("delivery")
	status.Store(200)
	b.Press("button", w.redeliver, "\r")
	b.Status()
	reaches(t, s, "delivered", 1)
	b.Until("the page shows the third attempt's answer by itself",
		`[...document.querySelectorAll("table tbody tr")].some((r) => r.innerText.includes("200"))`)

	// recover the rest
	b.Press("link", w.deliveries, "\r")
	b.Has("table", w.deliveries)
	b.Set("combobox", w.status, "dead")
	b.Set("textbox", w.since, "2020-01-01T00:00")
	b.Press("button", w.recoverLost, "\r")
	if message := b.Status(); !strings.Contains(message, "1") {
		t.Errorf("the recovery says %q", message)
	}
	reaches(t, s, "delivered", len(dead))

	// the receiver
	b.Press("link", w.receiver, "\r")
	b.Has("button", w.sendTest)
	looked("receiver")
	b.Press("button", w.sendTest, "\r")
	b.Until("the test's result", `document.querySelector("[data-result]").innerText.includes("200")`)
	looked("test")
	b.Press("button", w.rotate, "\r")
	b.Until("the new secret", `/whsec_/.test(document.querySelector("#webhook-secret")?.textContent ?? "")`)
	if secrets := receiverOf(t, s).Secrets; len(secrets) != 2 {
		t.Errorf("%d secrets sign after the rotation", len(secrets))
	}
	looked("secret")
	b.Press("button", w.pause, "\r")
	b.Has("button", w.resume)
	looked("paused")
	submit(t, s, nil)
	reaches(t, s, "pending", 1)
	b.Press("button", w.resume, "\r")
	b.Has("button", w.pause)
	reaches(t, s, "delivered", 3)
	b.Fill("URL", "ftp://nowhere")
	b.Press("button", w.save, "\r")
	b.Until("a refusal stays and says why", `document.querySelector("[role=status]").textContent.includes("http")`)
	if value := browser.Eval[string](b, `document.querySelector("#url").value`); value != "ftp://nowhere" {
		t.Errorf("what was typed became %q", value)
	}
	b.Faults() // the browser notes the 400 itself
	b.Fill("URL", receiver.URL+"/hooks")
	b.Press("button", w.save, "\r")
	wait.Until(t, "the address is saved", func() bool { return *receiverOf(t, s).URL == receiver.URL+"/hooks" })

	// choose an estimate
	b.Press("link", w.requests, "\r")
	b.Has("table", w.requests)
	looked("requests")
	b.Open(h.URL(0, fmt.Sprint("/portal/requests/", first)))
	b.Has("button", w.choose)
	looked("request")
	b.Press("button", w.choose, "\r")
	b.Lacks("button", w.choose)
	if r := read(t, s, first); r.Status != "selected" {
		t.Errorf("the request is %s", r.Status)
	}

	// the language stays, and so does the end
	b.Press("link", w.otherLanguage, "\r")
	b.Has("link", w.otherRequests)
	b.Open(h.URL(0, "/portal/deliveries"))
	b.Has("link", w.otherRequests)
	looked("other language")
	b.Open(h.URL(0, "/portal?lang="+map[bool]string{true: "en", false: "pt"}[w.requests == "Requests"]))
	b.Press("button", w.signOut, "\r")
	b.Lacks("link", w.requests)
	b.Faults() // the browser notes the 401 itself
	looked("signed out")
	if hosts := b.Hosts(); !slices.Equal(hosts, []string{link.Host}) {
		t.Errorf("requests went to %v", hosts)
	}
}

// TestPortal_shows_what_is_unusual_well looks at what a walk does not meet: nothing yet, errors, strangers' texts, long
// lists.
func TestPortal_shows_what_is_unusual_well(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded,
		apptest.Options{Env: map[string]string{"WEBHOOK_RETRY_SCHEDULE": "100ms", "WEBHOOK_TIMEOUT": "2s"}})
	for _, o := range []browser.Options{
		{Width: 390, Language: "en", Scripts: true}, {Width: 1280, Language: "pt-BR", Dark: true, Scripts: true},
	} {
		t.Run(fmt.Sprint(o.Language, ", ", o.Width), func(t *testing.T) {
			empty := h.Supplier(t)
			b := browser.Start(t, o)
			looked := func(what string) {
				t.Helper()
				b.Until("the page fits its width", "document.documentElement.scrollWidth <= innerWidth")
				b.Screenshot(fmt.Sprint("unusual ", o.Language, " ", o.Width, " ", what))
				b.Accessible()
			}
			again := false
			visited := func(s *apptest.Supplier, pages map[string]string) {
				t.Helper()
				link, err := url.Parse(portalLinkOf(t, s))
				if err != nil {
					t.Fatal(err)
				}
				b.Open(link.String())
				if again { // the browser has another supplier's session, and the link asks
					b.Click("button", map[string]string{"en": "Sign in", "pt-BR": "Entrar"}[o.Language])
				}
				again = true
				b.Until("the link opens the portal", `location.pathname === "/portal" && document.readyState === "complete"`)
				for what, path := range pages {
					b.Open(h.URL(0, "/portal"+path))
					looked(what)
				}
			}
			visited(empty, map[string]string{
				"nothing yet": "", "no requests": "/requests", "no requests that failed": "/requests?status=failed",
				"no deliveries": "/deliveries",
				"no receiver":   "/receiver", "not found": "/nowhere", "a filter that is none": "/deliveries?cursor=x",
			})
			receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusGone)
				_, _ = w.Write([]byte(hostile + strings.Repeat("wide", 300)))
			})
			s := h.Supplier(t, "--webhook-url", receiver.URL+"/"+strings.Repeat("a-very-long-path/", 40))
			apptest.MustCommand[object](t, h, "supplier", "update", s.ID, "--name", "<b>Ac\u202eme</b> "+
				strings.Repeat("Wide", 50))
			id := submit(t, s, object{"shop_code": strings.Repeat("SHOP", 60), "comment": "<i>" +
				strings.Repeat("comment ", 200), "materials": []object{
				item(object{"material": strings.Repeat("material", 30), "sku": strings.Repeat("S", 255), "width": 100000}),
			}})
			refused := reaches(t, s, "failed", 1)[0]
			want(t, s.Do(t, http.MethodPost, receiverPath+"/pause", nil), 200)
			for range 45 {
				submit(t, s, nil)
			}
			wait.Until(t, "all are estimated", func() bool {
				return len(listDeliveries(t, s, "status=pending&limit=100").Data) == 45
			})
			visited(s, map[string]string{
				"paused": "", "wide requests": thirdPage(t, s, requests, "/requests"), "wide request": fmt.Sprint("/requests/", id),
				"the third page": thirdPage(t, s, deliveriesPath, "/deliveries"),
				"wide delivery":  "/deliveries/" + refused.ID, "wide receiver": "/receiver",
			})
			b.Open(h.URL(0, "/portal/receiver"))
			b.Press("button", map[bool]string{true: english.sendTest, false: portuguese.sendTest}[o.Language == "en"], "\r")
			b.Until("the test's result", `document.querySelector("[data-result]").innerText.includes("410")`)
			looked("wide test")
			marks := browser.Eval[int](b, `document.querySelectorAll("main b, main i, main script, header b").length`)
			if marks != 0 {
				t.Errorf("%d elements were made of what a caller wrote", marks)
			}
		})
	}
}

// thirdPage is the address of one of the portal's tables behind two pages of the same list of the API.
func thirdPage(t *testing.T, s *apptest.Supplier, list, table string) string {
	t.Helper()
	query := "?limit=20"
	for range 2 {
		a := s.Do(t, http.MethodGet, list+query, nil)
		want(t, a, 200)
		query = "?limit=20&cursor=" + apptest.Decode[struct {
			Next string `json:"next_cursor"`
		}](t, a).Next
	}
	return table + query
}

// firstLink is the text of the first link of a table's first row.
func firstLink(b *browser.Browser, table string) string {
	return browser.Eval[string](b, fmt.Sprintf(`document.querySelector('table[aria-label=%q] tbody tr a').textContent`,
		table))
}

func TestPortal_a_link_on_another_site_opens_it(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s := h.Supplier(t)
	b := browser.Start(t, browser.Options{Width: 1280, Language: "en", Scripts: true})
	link := portalLinkOf(t, s)
	mail := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<!doctype html><a href="%s">Open the portal</a>`, link)
	}))
	t.Cleanup(mail.Close)
	b.Open(strings.Replace(mail.URL, "127.0.0.1", "localhost", 1)) // another site than 127.0.0.1
	b.Press("link", "Open the portal", "\r")
	b.Until("the portal is open", `location.pathname === "/portal"`)
	b.Has("button", "Sign out")
}

func TestPortal_can_be_read_without_scripts(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
	submit(t, s, nil)
	sent := reaches(t, s, "delivered", 1)[0]
	cookie := signIn(t, s)
	wait.Until(t, "the first success is stored", func() bool { return receiverOf(t, s).LastSuccessAt != nil })
	for path, says := range map[string]string{
		"": "All is well", "/requests": "SP-001", "/deliveries": "Delivered", "/deliveries?status=dead": "Nothing matches",
		"/deliveries/" +
			sent.ID: "estimate_id", "/receiver": "Current secret",
		"/deliveries?since=2020-01-01T00:00&request_id=&until=": "Delivered",
	} {
		a := visit(t, http.MethodGet, h.URL(0, "/portal"+path), cookie)
		want(t, a, 200)
		if !strings.Contains(string(a.Body), says) {
			t.Errorf("%s does not say %q", path, says)
		}
	}
}
