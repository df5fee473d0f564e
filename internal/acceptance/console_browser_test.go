package acceptance

import (
	"fmt"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/browser"
)

// TestConsole_in_a_browser walks an operator's night by the keyboard alone, on a wide screen and on a phone.
func TestConsole_in_a_browser(t *testing.T) {
	t.Parallel()
	for _, stack := range inBrowsers() {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			for name, o := range map[string]browser.Options{
				"console 1280 light": {Width: 1280, Language: "en", Scripts: true},
				"console 390 dark":   {Width: 390, Language: "en", Dark: true, Scripts: true},
			} {
				if o.Width > 390 && !everywhere() {
					continue
				}
				t.Run(name, func(t *testing.T) {
					h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{
						"OPERATOR_TOKEN": operatorToken, "WEBHOOK_RETRY_SCHEDULE": "100ms,100ms", "WEBHOOK_TIMEOUT": "2s",
					}})
					walkConsole(t, h, browser.Start(t, o), name)
				})
			}
		})
	}
}

func walkConsole(t *testing.T, h *apptest.Hub, b *browser.Browser, name string) {
	receiver, status := switchable(t, 503)
	s := h.Supplier(t, "--webhook-url", receiver.URL)
	submit(t, s, nil)
	id := submit(t, s, nil)
	reaches(t, s, "dead", 2)
	looked := func(what string) {
		t.Helper()
		b.Until("the page fits its width", "document.documentElement.scrollWidth <= innerWidth")
		b.Until("the page's own link is seen, on a phone too",
			`(document.querySelector(".top nav [aria-current]")?.getBoundingClientRect().right ?? 0) <= innerWidth`)
		b.Screenshot(name + " " + what)
		b.Accessible()
		if faults := b.Faults(); len(faults) > 0 {
			t.Errorf("%s: %v", what, faults)
		}
	}
	b.Open(h.APIs[0].AdminURL("/console"))
	for _, figure := range []string{"Accepted per second", "Delivered per second", "Backlog", "Oldest waiting",
		"Waiting deliveries", "Dead deliveries", "Failing receivers"} {
		b.Has("figure", figure)
	}
	for _, link := range []string{"Overview", "Requests", "Deliveries", "Receivers", "Suppliers", "Scoreboard",
		"Trackers"} {
		b.Has("link", link)
	}
	b.Until("the receiver is named by itself",
		fmt.Sprintf("document.querySelector('main').innerText.includes(%q)", "1 receiver is failing"))
	for figure, n := range map[string]int{"Failing receivers": 1, "Dead deliveries": 2} {
		b.Until("the figures agree with what is said and listed: "+figure,
			fmt.Sprintf(`document.querySelector('figure[aria-label=%q]').innerText.split("\n").includes("%d")`, figure, n))
	}
	looked("overview")

	// the cause in three clicks: look, the receiver's deliveries, one of them
	b.Press("link", "Look", "\r")
	b.Has("table", "Receivers")
	looked("receivers")
	b.Press("link", strings.TrimSpace(firstLink(b, "Receivers")), "\r")
	b.Has("table", "Deliveries")
	looked("deliveries")
	b.Press("link", strings.TrimSpace(firstLink(b, "Deliveries")), "\r")
	b.Has("table", "Attempts")
	b.Until("the answers of the receiver", `document.querySelector("main").innerText.includes("answer of the receiver")`)
	looked("delivery")

	// one request's whole story
	b.Open(h.APIs[0].AdminURL(fmt.Sprintf("/console/requests/%s/%d", s.ID, id)))
	b.Until("both its deliveries", `document.querySelectorAll("main table").length === 2`)
	looked("request")

	// all dead deliveries again: the token is asked for once, then how many
	status.Store(200)
	b.Open(h.APIs[0].AdminURL("/console/deliveries?status=dead"))
	b.Press("checkbox", "Select all", " ")
	b.Press("button", "Redeliver", "\r")
	b.Fill("Operator token", "wrong")
	b.Press("button", "Enter", "\r")
	b.Until("a wrong token is refused", `document.querySelector("dialog [role=alert]").textContent !== ""`)
	b.Faults() // the browser notes the 401s itself
	looked("token")
	b.Fill("Operator token", operatorToken)
	b.Press("button", "Enter", "\r")
	b.Until("the dialog says how many", `document.querySelector("dialog")?.innerText.includes("Redeliver 2 deliveries?")`)
	looked("asked")
	b.Press("button", "Redeliver", "\r")
	if message := b.Status(); !strings.Contains(message, "2") {
		t.Errorf("it says %q", message)
	}
	reaches(t, s, "delivered", 2)
	b.Has("button", "Sign out")

	// a key and a secret, which are shown once, are still there after the next actions
	b.Open(h.APIs[0].AdminURL("/console/suppliers/" + s.ID))
	for i, button := range []string{"Rotate key", "Rotate secret", "Pause", "Resume"} {
		b.Press("button", button, "\r")
		b.Until("what is shown after "+button, fmt.Sprintf(`document.querySelectorAll(".secret").length === %d &&
			document.querySelector("[role=status]").textContent !== ""`, min(i+1, 2)))
	}
	looked("key and secret")

	// the token is known now
	b.Open(h.APIs[0].AdminURL("/console/receivers"))
	b.Press("checkbox", "Select all", " ")
	b.Press("button", "Pause", "\r")
	b.Until("it is paused", `document.querySelector("main table").innerText.includes("Paused")`)
	looked("paused")
	for _, page := range []string{"requests", "suppliers", "scoreboard", "trackers", "search?q=nothing"} {
		b.Open(h.APIs[0].AdminURL("/console/" + page))
		looked(strings.TrimSuffix(page, "?q=nothing"))
	}
	b.Press("link", "Português", "\r")
	b.Has("link", "Visão geral")
	for page, words := range map[string]string{"": "pausado pelo operador", "/requests": "Estimada",
		"/receivers":  "pausado pelo operador",
		"/scoreboard": "0 respondidas"} {
		b.Open(h.APIs[0].AdminURL("/console" + page))
		b.Until("it is in Portuguese: "+page, fmt.Sprintf(`document.querySelector("main").innerText.includes(%q)`, words))
		b.Until("the page fits its width", "document.documentElement.scrollWidth <= innerWidth")
		b.Screenshot(name + " português" + strings.ReplaceAll(page, "/", " "))
	}
}
