package acceptance

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/browser"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// stricken is a supplier whose receiver is broken, and what becomes of it.
type stricken struct {
	*apptest.Supplier
	name     string
	receiver *apptest.Receiver
	repaired atomic.Bool
	taken    atomic.Int64 // calls that it answered with 2xx, tests apart
	reader   browser.Options
	words    words
	says     string // what its portal says is wrong
}

const lostEach = 6 // deliveries that each of them misses

// TestOutage_is_seen_and_ended_in_a_minute is an outage of an hour of the schedule: one receiver answers 410, one has a
// wrong secret, at one nothing listens. The operator is notified, sees how much waits where, and makes one link for
// each supplier; the supplier repairs, tests and recovers. Nothing is sent twice that was taken.
func TestOutage_is_seen_and_ended_in_a_minute(t *testing.T) {
	t.Parallel()
	for _, stack := range inBrowsers() {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			o := newOperator(t)
			env := o.env()
			env["OPERATOR_TOKEN"], env["WEBHOOK_RETRY_SCHEDULE"], env["WEBHOOK_TIMEOUT"] = operatorToken, "1h,1h", "2s"
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1, Env: env})
			all := breakThree(t, h)
			gone, secret, refused := all[0], all[1], all[2]
			submit(t, gone.Supplier, nil)
			reaches(t, gone.Supplier, "failed", 1) // and with it the receiver is paused
			for range lostEach - 1 {
				submit(t, gone.Supplier, nil)
			}
			for _, s := range []*stricken{secret, refused} {
				for range lostEach {
					submit(t, s.Supplier, nil)
				}
			}
			o.hears(t, secret.ID, "receiver.failing", 1)
			o.hears(t, refused.ID, "receiver.failing", 1)
			if paused := o.hears(t, gone.ID, "receiver.paused", 1); paused.Data.PausedBy != "service" {
				t.Errorf("%+v", paused)
			}
			reaches(t, gone.Supplier, "pending", lostEach-1)
			for _, s := range []*stricken{secret, refused} {
				wait.Until(t, "each was tried once and waits for an hour", func() bool {
					found := listDeliveries(t, s.Supplier, "status=pending").Data
					return len(found) == lostEach && !slices.ContainsFunc(found, func(d sentDelivery) bool {
						return d.AttemptCount != 1 || d.NextAttempt == nil
					})
				})
			}
			commandsShow(t, h, all)
			b := browser.Start(t, browser.Options{Width: 1280, Language: "en", Scripts: true})
			operatorSees(t, h, b, string(stack))
			for _, s := range all {
				link := operatorLinks(t, h, b, s, string(stack))
				s.repairs(t, h, link, string(stack))
				reaches(t, s.Supplier, "delivered", lostEach)
				if n := s.taken.Load(); n != lostEach {
					t.Errorf("%s took %d calls for %d deliveries", s.name, n, lostEach)
				}
			}
			o.hears(t, secret.ID, "receiver.recovered", 1)
			onPhone(t, h, all, string(stack))
		})
	}
}

// breakThree makes the three suppliers. A receiver takes what is signed by its supplier's secret once it is repaired.
func breakThree(t *testing.T, h *apptest.Hub) []*stricken {
	t.Helper()
	all := []*stricken{
		{name: "Acme Gone", words: english, reader: browser.Options{Width: 390, Language: "en", Scripts: true},
			says: "paused because it answered 410 Gone"},
		{name: "Borges Secret", words: portuguese, says: "recusa a assinatura",
			reader: browser.Options{Width: 1280, Language: "pt-BR", Dark: true, Scripts: true}},
		{name: "Clara Refused", words: english, says: "the connection was refused",
			reader: browser.Options{Width: 1280, Language: "en", Scripts: true}},
	}
	for _, s := range all {
		s.receiver = apptest.NewReceiver(t, s.answer)
		address := s.receiver.URL
		if s.name == "Clara Refused" { // nothing listens there
			address = "http://127.0.0.1:1" // a port that was free is soon another test's
		}
		made := apptest.MustCommand[apptest.Supplier](t, h, "supplier", "create", "--name", s.name, "--webhook-url", address)
		s.Supplier = h.Known(t, made)
	}
	return all
}

func (s *stricken) answer(_ int, w http.ResponseWriter, r *http.Request) {
	switch {
	case s.repaired.Load():
		if !strings.HasSuffix(r.URL.Path, "/0/delivery-estimates") { // a test's
			s.taken.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	case s.name == "Acme Gone":
		w.WriteHeader(http.StatusGone)
	default:
		w.WriteHeader(http.StatusUnauthorized)
	}
}

// commandsShow is the operator's look by commands.
func commandsShow(t *testing.T, h *apptest.Hub, all []*stricken) {
	t.Helper()
	rows := map[string]object{}
	wait.Until(t, "the last failures are noted", func() bool {
		for _, row := range apptest.MustCommand[[]object](t, h, "receiver", "list") {
			rows[fmt.Sprint(row["supplier_name"])] = row
		}
		return rows["Borges Secret"]["consecutive_failures"] == 6. && rows["Clara Refused"]["consecutive_failures"] == 6.
	})
	for name, want := range map[string]object{
		"Acme Gone": {"state": "paused", "waiting": 5., "paused_by": "service",
			"last_error": "status 410: the receiver says that it is gone permanently: repair it, or set its new address"},
		"Borges Secret": {"state": "failing", "waiting": 6., "consecutive_failures": 6.,
			"last_error": "status 401: the receiver refuses the signature: check that it verifies with your signing secret"},
		"Clara Refused": {"state": "failing", "waiting": 6., "consecutive_failures": 6.},
	} {
		for member, value := range want {
			if rows[name][member] != value {
				t.Errorf("receiver list: %s of %s is %v, want %v", member, name, rows[name][member], value)
			}
		}
		if rows[name]["oldest_waiting_at"] == nil {
			t.Errorf("receiver list: since when %s waits is not said", name)
		}
	}
	for _, row := range apptest.MustCommand[[]object](t, h, "supplier", "list") {
		if want := rows[fmt.Sprint(row["name"])]; row["state"] != want["state"] || row["waiting"] != want["waiting"] {
			t.Errorf("supplier list: %v, receiver list: %v", row, want)
		}
	}
	waiting := apptest.MustCommand[[]object](t, h, "delivery", "list", "--status", "pending",
		"--supplier", "borges secret")
	for _, row := range waiting {
		if row["last_status"] != 401. || row["attempt_count"] != 1. || row["next_attempt_at"] == nil {
			t.Errorf("delivery list: %v", row)
		}
	}
	if len(waiting) != lostEach {
		t.Errorf("delivery list: %d wait, by the name of the supplier", len(waiting))
	}
	for command, columns := range map[string]string{"receiver list": "FAILURES WAITING OLDEST", "supplier list": "STATE",
		"delivery list --status pending": "TRIES LAST NEXT"} {
		out, _, _ := h.Command(t, strings.Fields(command)...)
		head := strings.Join(strings.Fields(strings.SplitN(out, "\n", 2)[0]), " ")
		if !strings.Contains(head, columns) {
			t.Errorf("%s has the columns %s", command, head)
		}
	}
	_, errOut, code := h.Command(t, "supplier", "pause", "Borges Secert")
	if code != 1 || !strings.Contains(errOut, "There is no supplier Borges Secert") {
		t.Errorf("of a name that none has: %d %s", code, errOut)
	}
	if slices.Contains(slices.Collect(maps.Keys(rows)), "") || len(rows) != len(all) {
		t.Errorf("receiver list has %d rows", len(rows))
	}
}

// looks takes a picture of a page and fails for what is wrong with it.
func looks(t *testing.T, b *browser.Browser, what string) {
	t.Helper()
	b.Until("the page fits its width", "document.documentElement.scrollWidth <= innerWidth")
	b.Until("the lines of a row are straight", `[...document.querySelectorAll("main tbody tr")].every((row) => {
		const ends = [...row.cells].filter((c) => getComputedStyle(c).display === "table-cell")
			.map((c) => Math.round(c.getBoundingClientRect().bottom));
		return new Set(ends).size <= 1; })`)
	b.Screenshot("outage " + what)
	if everywhere() { // else by the walks of console and portal alone
		b.Accessible()
	}
	if faults := b.Faults(); len(faults) > 0 {
		t.Errorf("%s: %v", what, faults)
	}
}

func includes(text string) string {
	return fmt.Sprintf("document.querySelector('main').innerText.includes(%q)", text)
}

// operatorSees is the operator's look at the console.
func operatorSees(t *testing.T, h *apptest.Hub, b *browser.Browser, stack string) {
	t.Helper()
	b.Open(h.APIs[0].AdminURL("/"))
	b.Until("the address opens the console", `location.pathname === "/console"`)
	b.Has("figure", "Waiting deliveries")
	b.Until("the overview says what is wrong", includes("2 receivers are failing. The service paused 1 receiver."))
	b.Until("the figure counts what waits",
		`document.querySelector('figure[aria-label="Waiting deliveries"]').innerText.split("\n").includes("17")`)
	looks(t, b, stack+" 1 overview")
	b.Press("link", "Look", "\r")
	b.Has("table", "Receivers")
	for name, n := range map[string]int{"Acme Gone": 5, "Borges Secret": 6, "Clara Refused": 6} {
		b.Until("what waits for "+name, fmt.Sprintf(`[...document.querySelectorAll("main tbody tr")].some((row) =>
			row.innerText.includes(%q) && row.cells[2].innerText.startsWith("%d since"))`, name, n))
	}
	looks(t, b, stack+" 2 receivers")
}

// operatorLinks makes a link into the portal, from the page that a search for the supplier's name finds.
func operatorLinks(t *testing.T, h *apptest.Hub, b *browser.Browser, s *stricken, stack string) string {
	t.Helper()
	b.Open(h.APIs[0].AdminURL("/console/receivers"))
	b.Fill("Search", s.name)
	b.Press("textbox", "Search", "\r")
	b.Until("the search opens the supplier", fmt.Sprintf(`location.pathname === "/console/suppliers/%s"`, s.ID))
	for _, table := range []string{"Deliveries", "Requests"} {
		b.Has("table", table)
	}
	looks(t, b, stack+" 3 "+s.name)
	b.Press("button", "Portal link", "\r")
	b.Until("the token is asked for, or the link is there", `!!document.querySelector("dialog, #link")`)
	if browser.Eval[bool](b, `!!document.querySelector("dialog")`) { // it is asked for once
		b.Fill("Operator token", operatorToken)
		b.Press("button", "Enter", "\r")
	}
	b.Until("the link is shown", `/\/portal\/sign-in\?token=/.test(document.querySelector("#link")?.textContent ?? "")`)
	b.Faults() // the browser notes the 401 itself
	looks(t, b, stack+" 4 link of "+s.name)
	return browser.Eval[string](b, `document.querySelector("#link").textContent`)
}

// repairs is what the supplier does with the link.
func (s *stricken) repairs(t *testing.T, h *apptest.Hub, link, stack string) {
	t.Helper()
	b, w := browser.Start(t, s.reader), s.words
	b.Open(link)
	b.Until("the link opens the portal", `location.pathname === "/portal" && document.readyState === "complete"`)
	looks(t, b, stack+" 5 portal of "+s.name)
	b.Press("link", w.receiver, "\r")
	b.Has("button", w.sendTest)
	if s.name == "Borges Secret" { // a test before the repair says what is probably wrong
		b.Press("button", w.sendTest, "\r")
		b.Until("the test's result", `document.querySelector("[data-result]").innerText.includes("401")`)
	}
	b.Until("it says what is wrong", includes(s.says))
	looks(t, b, stack+" 6 receiver of "+s.name)
	s.repaired.Store(true)
	if s.name == "Clara Refused" {
		b.Fill("URL", s.receiver.URL)
		b.Press("button", w.save, "\r")
		b.Status()
	}
	b.Press("button", w.sendTest, "\r")
	b.Until("the test is taken", `document.querySelector("[data-result]").innerText.includes("204")`)
	looks(t, b, stack+" 7 test of "+s.name)
	if s.name == "Acme Gone" {
		b.Press("button", w.resume, "\r")
		b.Has("button", w.pause)
		reaches(t, s.Supplier, "delivered", lostEach-1)
		b.Press("link", w.deliveries, "\r")
		b.Has("table", w.deliveries)
		b.Until("the recovery begins with all that is undelivered",
			`document.querySelector("#recover-status").value === "undelivered"`)
	}
	if s.name != "Clara Refused" { // what waits goes to the new address by itself
		b.Press("button", w.recoverLost, "\r")
		b.Status()
	}
	reaches(t, s.Supplier, "delivered", lostEach)
	b.Open(h.URL(0, "/portal/deliveries"))
	b.Has("table", w.deliveries)
	looks(t, b, stack+" 8 deliveries of "+s.name)
	for _, c := range s.receiver.Calls() {
		secret, err := webhook.ParseSecret(s.WebhookSecret)
		if err == nil {
			_, err = webhook.Verify(c.Header, c.Body, c.At, secret)
		}
		if err != nil {
			t.Fatalf("%s: a call is not signed: %v", s.name, err)
		}
	}
}

// onPhone looks at the same pages of the console on a phone, in Portuguese.
func onPhone(t *testing.T, h *apptest.Hub, all []*stricken, stack string) {
	t.Helper()
	b := browser.Start(t, browser.Options{Width: 390, Language: "pt-BR", Dark: true, Scripts: true})
	for what, path := range map[string]string{"overview": "", "receivers": "/receivers", "suppliers": "/suppliers",
		"supplier": "/suppliers/" + all[0].ID, "deliveries": "/deliveries", "rates": "/rates?service=road",
		"scoreboard": "/scoreboard"} {
		b.Open(h.APIs[0].AdminURL("/console" + path))
		b.Until("it is in Portuguese", `document.documentElement.lang === "pt"`)
		looks(t, b, stack+" phone "+what)
	}
}
