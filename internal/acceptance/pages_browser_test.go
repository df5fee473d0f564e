package acceptance

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/browser"
)

// TestLivePages_in_a_browser holds what a page that reads itself again may not do to its reader.
func TestLivePages_in_a_browser(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
	want(t, s.Do(t, http.MethodPost, "/api/webhook-receiver/pause", nil), 200)
	id := submit(t, s, nil)
	reaches(t, s, "pending", 1)
	b := browser.Start(t, browser.Options{Width: 1280, Language: "en", Scripts: true})
	b.Open(portalLinkOf(t, s))
	b.Has("link", "Deliveries")
	b.Open(h.URL(0, "/portal/deliveries"))
	b.Until("the page reads itself again", `document.querySelector("[data-live]") !== null`)

	b.Set("combobox", "Status", "dead")
	b.Focus("button", "Recover")
	b.Until("time for a reading has passed", `performance.now() - (window.since ??= performance.now()) > 4500`)
	if value := browser.Eval[string](b, `document.querySelector("#recover-status").value`); value != "dead" {
		t.Errorf("what was chosen became %q", value)
	}

	// one that fails for a moment
	b.Set("combobox", "Status", "undelivered")
	b.Until("the page is read while it fails", `(() => {
		if (window.failed === undefined) {
			window.failed = 0;
			const fetches = window.fetch;
			window.fetch = (...args) => window.failed++ ? fetches(...args)
				: Promise.resolve(new Response("<main id=main>away</main>", {status: 503}));
		}
		return window.failed > 1;
	})()`)
	b.Has("table", "Deliveries")

	// a link that the keyboard has reached; the way back has the filter, and what an action takes away gives its focus
	b.Open(h.URL(0, "/portal/deliveries?status=pending"))
	b.Focus("link", fmt.Sprint("Webhook for request ", id))
	b.Until("time for a reading has passed", `performance.now() - (window.since ??= performance.now()) > 4500`)
	b.Until("the focus is where it was", `document.activeElement.matches("main tbody a")`)
	b.Press("link", fmt.Sprint("Webhook for request ", id), "\r")
	b.Until("the way back has the filter", `document.querySelector("a.back")?.href.endsWith("/deliveries?status=pending")`)
	b.Open(h.URL(0, fmt.Sprint("/portal/requests/", id)))
	b.Press("button", "Choose", "\r")
	b.Lacks("button", "Choose")
	b.Until("the focus is on the content", `document.activeElement.id === "main"`)

	// an action of another form than the one that its reader works in
	b.Open(h.URL(0, "/portal/receiver"))
	b.Fill("URL", "https://new.example")
	b.Set("combobox", "Both sign for", "1h")
	b.Click("button", "Send test")
	b.Until("the test's result is shown", `document.querySelector("[data-result] > *") !== null`)
	if typed := browser.Eval[string](b, `document.querySelector("#url").value + " " +
		document.querySelector("#overlap").value`); typed != "https://new.example 1h" {
		t.Errorf("what was typed became %q", typed)
	}
	b.Click("button", "Rotate secret")
	b.Until("the new secret is shown", `document.querySelector("#webhook-secret") !== null`)
	if typed := browser.Eval[string](b, `document.querySelector("#url").value + " " +
		document.querySelector("#overlap").value`); typed != "https://new.example 24h" {
		t.Errorf("what was typed, and what was sent, became %q", typed)
	}

	// what is shown once stays through other actions, until there is a new one
	secret := browser.Eval[string](b, `document.querySelector("#webhook-secret").textContent`)
	for _, button := range []string{"Send test", "Resume", "Pause"} {
		b.Click("button", button)
		b.Until(button+" has an answer", `document.querySelector("[role=status]").textContent !== ""`)
		b.Until("the secret is still shown",
			fmt.Sprintf(`document.querySelector("#webhook-secret")?.textContent === %q`, secret))
	}
	b.Click("button", "Rotate secret")
	b.Until("a new secret alone is shown", fmt.Sprintf(`document.querySelectorAll(".secret").length === 1 &&
		document.querySelector("#webhook-secret").textContent !== %q`, secret))

	// an action that something else than the page answers
	b.Open(h.URL(0, "/portal/receiver"))
	b.Fill("URL", "https://typed.example")
	browser.Eval[bool](b, `(window.fetch = () =>
		Promise.resolve(new Response('{"detail": "Out of order."}', {status: 500})), true)`)
	b.Click("button", "Save")
	b.Until("its text is said as an error",
		`document.querySelector("[role=status].failed")?.textContent === "Out of order."`)
	if typed := browser.Eval[string](b, `document.querySelector("#url").value`); typed != "https://typed.example" {
		t.Errorf("what was typed became %q", typed)
	}

	// the browser is another supplier's meanwhile
	other := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
	b.Open(h.URL(0, "/portal/receiver"))
	browser.Eval[bool](b, fmt.Sprintf(`(fetch("/portal/sign-in", {method: "POST", headers: {"X-Page-Request": "1"},
		body: new URLSearchParams(%q.split("?")[1])}).then((a) => { window.signed = a.ok; }), true)`,
		portalLinkOf(t, other)))
	b.Until("the browser is signed in as another", `window.signed === true`)
	b.Press("button", "Resume", "\r")
	b.Until("it is refused", `document.querySelector("[role=status]").textContent.includes("another supplier")`)
	if r := receiverOf(t, s); r.State != "paused" {
		t.Errorf("the receiver is %s", r.State)
	}
}
