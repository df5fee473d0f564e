package acceptance

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// night is the drill: a receiver dies, an alert and an operator event come, the operator finds the cause in three
// clicks and pauses it, the supplier repairs it and recovers the range.
func night(t *testing.T, h *apptest.Hub, o *operator) {
	rule(t, "the drill of a night", func(t *testing.T) {
		receiver, status := switchable(t, 200)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		submit(t, s, nil)
		reaches(t, s, "delivered", 1)
		began := time.Now().Add(-time.Minute)

		status.Store(503)
		for range 4 {
			submit(t, s, nil)
		}
		reaches(t, s, "dead", 4)
		failing := alert(t, "SupplyhubReceiversFailing")
		wait.Until(t, "the alert's expression is true", func() bool { return failing(scrape(t, h.APIs[0])) })
		o.hears(t, s.ID, "receiver.failing", 1)

		operator := []string{"Authorization", "Bearer " + operatorToken}
		page := click(t, h, "/console", "Look")
		page = click(t, h, page, t.Name())
		page = click(t, h, page, "Webhook for request")
		if a := atConsole(t, h.APIs[0], page, nil); !strings.Contains(string(a.Body), "503") ||
			!strings.Contains(string(a.Body), "answer of the receiver") {
			t.Errorf("%s does not show why: %s", page, a.Body)
		}
		want(t, atConsole(t, h.APIs[0], "/console/receivers/pause", url.Values{"id": {s.ID}}, operator...), 200)
		o.hears(t, s.ID, "receiver.paused", 1)
		submit(t, s, nil)
		reaches(t, s, "pending", 1)

		repaired := apptest.NewReceiver(t, nil)
		want(t, s.Do(t, http.MethodPut, "/api/webhook-receiver", object{"url": repaired.URL}), 200)
		want(t, s.Do(t, http.MethodPost, "/api/webhook-receiver/resume", nil), 409) // the operator paused it
		want(t, atConsole(t, h.APIs[0], "/console/receivers/resume", url.Values{"id": {s.ID}}, operator...), 200)
		wantBody(t, s.Do(t, http.MethodPost, "/api/webhook-deliveries/redeliver",
			object{"status": "dead", "since": began.UTC().Format(time.RFC3339)}), 202, object{"redelivered": 4})
		reaches(t, s, "delivered", 6)
		if n := len(repaired.Calls()); n != 5 {
			t.Errorf("the repaired receiver was called %d times", n)
		}
		o.hears(t, s.ID, "receiver.recovered", 1)
		wait.Until(t, "the console says that it is well", func() bool {
			a := atConsole(t, h.APIs[0], "/console/api/receivers?supplier_id="+s.ID, nil)
			return strings.Contains(string(a.Body), `"state":"active"`)
		})
	})
}

// click follows a page's first link in the main part whose text matches, and returns its target.
func click(t *testing.T, h *apptest.Hub, page, text string) string {
	t.Helper()
	body := string(atConsole(t, h.APIs[0], page, nil).Body)
	_, body, _ = strings.Cut(body, "<main")
	link := regexp.MustCompile(`<a [^>]*href="([^"]+)"[^>]*>\s*(?:<[^>]+>\s*)*` + text).FindStringSubmatch(body)
	if link == nil {
		t.Fatalf("%s has no link %q:\n%s", page, text, body)
	}
	return html.UnescapeString(link[1])
}

var (
	alertRule  = regexp.MustCompile(`- alert: (\w+)\s+expr: (.+)\n`)
	expression = regexp.MustCompile(`^(?:max\()?([a-z_]+)(?:\{(\w+="\w+")\})?\)? (>|==) (\d+)$`)
)

// alerts are the rules that compare one gauge, or one that all processes share, with a number; Prometheus' own library
// evaluates all rules in deployments/checks.
func alerts(t *testing.T) map[string]func(series map[string]string) bool {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "deployments", "prometheus", "alerts.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]func(map[string]string) bool{}
	for _, r := range alertRule.FindAllStringSubmatch(string(text), -1) {
		e := expression.FindStringSubmatch(r[2])
		if e == nil {
			continue
		}
		name := e[1]
		if e[2] != "" {
			name += "{" + e[2] + "}"
		}
		bound, _ := strconv.ParseFloat(e[4], 64)
		found[r[1]] = func(series map[string]string) bool {
			value, err := strconv.ParseFloat(series[name], 64)
			return err == nil && (e[3] == ">" && value > bound || e[3] == "==" && value == bound)
		}
	}
	return found
}

func alert(t *testing.T, name string) func(series map[string]string) bool {
	t.Helper()
	fires := alerts(t)[name]
	if fires == nil {
		t.Fatal(fmt.Sprint("there is no rule ", name, " that compares a gauge"))
	}
	return fires
}
