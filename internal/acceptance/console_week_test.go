package acceptance

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// TestConsole_does_what_an_operator_does_every_week acts as an operator's script would: with the
// token as Bearer. Each change is a line of the audit.
func TestConsole_does_what_an_operator_does_every_week(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{
				"OPERATOR_TOKEN": operatorToken}})
			weekRules(t, h)
		})
	}
}

var (
	shownKey    = regexp.MustCompile(`hub_sk_\w+`)
	shownSecret = regexp.MustCompile(`whsec_[\w+/]+=*`)
	shownLink   = regexp.MustCompile(`http[^"< ]+/portal/sign-in\?token=[\w-]+`)
)

// onPage finds a credential as a browser shows it: HTML writes the + of a secret as &#43;.
func onPage(a apptest.Answer, credential *regexp.Regexp) string {
	return credential.FindString(html.UnescapeString(string(a.Body)))
}

func weekRules(t *testing.T, h *apptest.Hub) {
	act := func(t *testing.T, path string, values ...string) apptest.Answer {
		t.Helper()
		form := url.Values{}
		for i := 0; i+1 < len(values); i += 2 {
			form.Set(values[i], values[i+1])
		}
		a := atConsole(t, h.APIs[0], "/console"+path, form, "Authorization", "Bearer "+operatorToken)
		if a.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the answer may be stored: %v", path, a.Header)
		}
		return a
	}
	audited := func(t *testing.T, action string, secrets ...string) {
		t.Helper()
		wait.Until(t, "the audit has "+action, func() bool {
			return strings.Contains(h.APIs[0].Log(), `"action":"`+action+`"`)
		})
		for _, secret := range secrets {
			if secret == "" || strings.Contains(h.APIs[0].Log(), secret) {
				t.Errorf("%s: the log has %q", action, secret)
			}
		}
	}
	works := func(t *testing.T, key string) bool {
		t.Helper()
		return h.Do(t, http.MethodPost, "/api/external-auth/token", nil, "x-api-key", key).Status == http.StatusOK
	}
	rule(t, "a new supplier's key and secret are shown once, and a rotated key ends the old one when it should",
		func(t *testing.T) {
			name := "Weekly " + fmt.Sprint(nextID())
			a := act(t, "/suppliers/create", "name", name, "webhook_url", "https://hooks.example.com")
			key, secret := onPage(a, shownKey), onPage(a, shownSecret)
			if a.Status != 200 || !works(t, key) {
				t.Fatalf("%d %s", a.Status, a.Body)
			}
			audited(t, "supplier.create", key, secret)
			id := apptest.MustCommand[[]object](t, h, "supplier", "list")
			var supplier string
			for _, s := range id {
				if s["name"] == name {
					supplier = fmt.Sprint(s["id"])
				}
			}
			page := atConsole(t, h.APIs[0], "/console/suppliers/"+supplier, nil)
			text := html.UnescapeString(string(page.Body))
			if page.Status != 200 || strings.Contains(text, key) || strings.Contains(text, secret) ||
				!strings.Contains(text, "…"+key[len(key)-4:]) {
				t.Errorf("its page: %d %s", page.Status, text)
			}
			a = act(t, "/suppliers/rotate-key", "id", supplier, "overlap", "0s")
			next := onPage(a, shownKey)
			if a.Status != 200 || next == key || !works(t, next) || works(t, key) {
				t.Errorf("rotation: %d %s", a.Status, a.Body)
			}
			audited(t, "supplier.rotate-key", next)
			a = act(t, "/suppliers/rotate-secret", "id", supplier, "overlap", "24h")
			if made := onPage(a, shownSecret); a.Status != 200 || made == secret {
				t.Errorf("rotation: %d %s", a.Status, a.Body)
			}
			a = act(t, "/suppliers/portal-link", "id", supplier)
			link := onPage(a, shownLink)
			if opened := visit(t, http.MethodGet, link, ""); a.Status != 200 || sessionOf(opened) == "" {
				t.Errorf("the link %q opens nothing: %d", link, opened.Status)
			}
			audited(t, "portal.link", link)
		})
	rule(t, "the receiver's concurrency is changed, and a bad value is refused by name", func(t *testing.T) {
		s := h.Supplier(t)
		want(t, act(t, "/suppliers/concurrency", "id", s.ID, "receiver_concurrency", "7"), 200)
		for _, one := range apptest.MustCommand[[]object](t, h, "supplier", "list") {
			if one["id"] == s.ID && one["receiver_concurrency"] != 7. {
				t.Errorf("%v", one)
			}
		}
		for _, bad := range []string{"0", "many"} {
			a := act(t, "/suppliers/concurrency", "id", s.ID, "receiver_concurrency", bad)
			if a.Status != 400 || !strings.Contains(string(a.Body), "Calls at once must be") {
				t.Errorf("%s: %d %s", bad, a.Status, a.Body)
			}
		}
		audited(t, "supplier.update")
	})
	rule(t, "the rate card gets a service and loses one, as by the commands", func(t *testing.T) {
		night := []string{"service", "night", "carrier", "Noite Cargas", "from", "2026-01-01", "base-cents", "9000",
			"per-kg-cents", "700", "minimum-cents", "12000", "cubage", "167", "max-side", "120", "max-weight", "30",
			"transit-days", "1"}
		want(t, act(t, "/rates/set", night...), 200)
		has := func() (found bool) {
			for _, rate := range apptest.MustCommand[[]object](t, h, "rate", "list") {
				found = found || rate["service"] == "night" && rate["base_cents"] == 9000.
			}
			return found
		}
		if !has() {
			t.Error("the service is not on the card")
		}
		for _, ambiguous := range []string{"10.000", "1,500", "1_000", "0x10", "1.000,5"} {
			a := act(t, "/rates/set", append(append([]string{}, night...), "max-weight", ambiguous)...)
			if a.Status != 400 || !strings.Contains(string(a.Body), "Largest weight (kg) must ") {
				t.Errorf("%s: %d %s", ambiguous, a.Status, a.Body)
			}
		}
		if a := act(t, "/rates/set", append([]string{}, append(night[:6], "base-cents", "much")...)...); a.Status != 400 ||
			!strings.Contains(string(a.Body), "Base price (cents) must be a whole number") {
			t.Errorf("%d %s", a.Status, a.Body)
		}
		want(t, act(t, "/rates/remove", "id", "night"), 200)
		if has() {
			t.Error("the service is on the card still")
		}
		audited(t, "rate.set")
		audited(t, "rate.remove")
	})
	rule(t, "a scoreboard's setting is changed and given its default again", func(t *testing.T) {
		value := func() any {
			for _, setting := range apptest.MustCommand[[]object](t, h, "settings", "list") {
				if setting["key"] == "scoreboard.daily_quota" {
					return setting["value"]
				}
			}
			return nil
		}
		want(t, act(t, "/scoreboard/set", "key", "scoreboard.daily_quota", "value", "120"), 200)
		if value() != "120" {
			t.Errorf("the quota is %v", value())
		}
		want(t, act(t, "/scoreboard/set", "key", "scoreboard.daily_quota", "value", "-1"), 400)
		want(t, act(t, "/scoreboard/set", "key", "scoreboard.daily_quota", "value", ""), 200)
		if value() != "80" {
			t.Errorf("the quota is %v", value())
		}
		audited(t, "settings.set")
	})
}
