package acceptance

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/browser"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// inParts is more than two calls of the console do.
const inParts = 850

// TestConsole_in_parts is what the console does with very many rows: part by part, each row once, until it is
// cancelled.
func TestConsole_in_parts(t *testing.T) {
	t.Parallel()
	for _, stack := range inBrowsers() {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{
				"OPERATOR_TOKEN": operatorToken}})
			s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
			submitMany(t, s, inParts)
			m := many{t, h, s}
			m.allDelivered()
			m.all(`UPDATE webhook_deliveries SET status = 'dead' WHERE destination = '%s'`)
			m.cancelledInBrowser()
			m.allDelivered()
			m.all(`UPDATE webhook_deliveries SET status = 'dead' WHERE destination = '%s'`)
			m.done("/deliveries/redeliver", "dead")
			m.allDelivered()
			m.all(`UPDATE material_requests SET status = 'failed', failure = 'It was made to.' WHERE supplier_id = '%s'`)
			m.done("/requests/reopen", "failed")
			m.inRound(2)
		})
	}
}

func submitMany(t *testing.T, s *apptest.Supplier, n int) {
	t.Helper()
	var group sync.WaitGroup
	each := make(chan int64)
	for range 16 {
		group.Go(func() {
			for id := range each {
				if a := s.Do(t, http.MethodPost, requests, request(id, nil)); a.Status != http.StatusCreated {
					t.Errorf("%d: %d %s", id, a.Status, a.Body)
				}
			}
		})
	}
	for range n {
		each <- nextID()
	}
	close(each)
	group.Wait()
}

// many is a supplier with very many requests.
type many struct {
	*testing.T
	hub      *apptest.Hub
	supplier *apptest.Supplier
}

// all makes every row of the supplier what the statement says.
func (m many) all(statement string) {
	m.Helper()
	_, err := openDatabase(m.T, m.hub).ExecContext(m.Context(), fmt.Sprintf(statement, m.supplier.ID))
	if err != nil {
		m.Fatal(err)
	}
}

func (m many) is(status string) (n int64) {
	m.Helper()
	err := openDatabase(m.T, m.hub).QueryRowContext(m.Context(), `SELECT count(*) FROM webhook_deliveries
		WHERE destination = $1 AND status = $2`, m.supplier.ID, status).Scan(&n)
	if err != nil {
		m.Fatal(err)
	}
	return n
}

func (m many) allDelivered() {
	m.Helper()
	wait.Until(m.T, "all are delivered", func() bool { return m.is("delivered") == inParts })
}

// inRound fails unless each request was reopened so often.
func (m many) inRound(round int64) {
	m.Helper()
	var first, last int64
	err := openDatabase(m.T, m.hub).QueryRowContext(m.Context(),
		fmt.Sprintf(`SELECT min(round), max(round) FROM material_requests WHERE supplier_id = '%s'`,
			m.supplier.ID)).Scan(&first, &last)
	if err != nil || first != round || last != round {
		m.Errorf("the requests are in rounds %d to %d: %v", first, last, err)
	}
}

// cancelledInBrowser presses Cancel as soon as progress is seen, and then does the rest.
func (m many) cancelledInBrowser() {
	m.Helper()
	b := browser.Start(m.T, browser.Options{Width: 1280, Language: "en", Scripts: true})
	ask := func(n int64, tokenToo bool) {
		b.Open(m.hub.APIs[0].AdminURL("/console/deliveries?status=dead&supplier_id=" + m.supplier.ID))
		b.Press("checkbox", "All that match, on other pages too", " ")
		b.Press("button", "Redeliver", "\r")
		if tokenToo {
			b.Fill("Operator token", operatorToken)
			b.Press("button", "Enter", "\r")
		}
		b.Until("the dialog says how many match",
			fmt.Sprintf(`document.querySelector("dialog")?.innerText.includes("Redeliver %d deliver")`, n))
	}
	ask(inParts, true)
	browser.Eval[bool](b, `(() => {
		const said = document.querySelector("[data-progress]"), bar = document.querySelector("dialog progress");
		window.seen = [];
		new MutationObserver(() => {
			window.seen.push([bar.hidden, bar.value, bar.max].join(" "));
			document.querySelector("dialog [data-close]")?.click();
		}).observe(said, { childList: true });
		return true;
	})()`)
	b.Press("button", "Redeliver", "\r")
	var first, done int64
	if _, err := fmt.Sscanf(b.Status(), "%d deliveries will be sent again.", &done); err != nil {
		m.Fatal(err)
	}
	seen := strings.Join(browser.Eval[[]string](b, `window.seen`), ", ")
	if _, err := fmt.Sscanf(seen, fmt.Sprintf("false %%d %d", inParts), &first); err != nil || first == 0 || first > done {
		m.Errorf("the progress %q of %d that are done: %v", seen, done, err)
	}
	if dead := m.is("dead"); done >= inParts || dead != inParts-done {
		m.Fatalf("Cancel stopped nothing: %d are done, %d are dead still", done, dead)
	}
	ask(inParts-done, false)
	b.Press("button", "Redeliver", "\r")
	if said := b.Status(); !strings.HasPrefix(said, fmt.Sprint(inParts-done)) {
		m.Errorf("of the rest it says %q", said)
	}
}

// done calls an action as a program does, until no more is left.
func (m many) done(path, status string) {
	m.Helper()
	values := url.Values{"matching": {"yes"}, "status": {status}, "supplier_id": {m.supplier.ID}}
	var parts []int64
	for last, more := int64(0), true; more; {
		a := atConsole(m.T, m.hub.APIs[0], "/console"+path, values, "Authorization", "Bearer "+operatorToken)
		want(m.T, a, http.StatusOK)
		said := apptest.Decode[struct {
			Done, Total, Until int64
			More               bool
		}](m.T, a)
		parts, last, more = append(parts, said.Done-last), said.Done, said.More
		if said.Total != inParts || said.Done > inParts {
			m.Fatalf("%s: %s", path, a.Body)
		}
		for name, n := range map[string]int64{"done": said.Done, "total": said.Total, "until": said.Until} {
			values.Set(name, fmt.Sprint(n))
		}
	}
	sum := int64(0)
	for _, part := range parts {
		sum += part
	}
	if sum != inParts || len(parts) < 3 {
		m.Errorf("%s: parts of %v, of %d", path, parts, inParts)
	}
}
