package acceptance

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

func TestTop_prints_the_overview_of_all_named_processes_once_without_a_terminal(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
			var listeners []string
			for _, p := range append(h.APIs, h.Workers...) {
				listeners = append(listeners, strings.TrimPrefix(p.AdminURL(""), "http://"))
			}
			var figures map[string]*float64
			wait.Until(t, "what is accepted and delivered shows", func() bool {
				for range 20 {
					submit(t, s, nil)
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					for range 40 { // not by submit, which may end the test and must not from here
						a, err := h.Try(t, h.URL(0, requests), http.MethodPost, request(nextID(), nil), "Authorization", "Bearer "+
							s.AccessToken())
						if err != nil || a.Status != http.StatusCreated {
							t.Errorf("submit: %d %v", a.Status, err)
						}
					}
				}()
				out, errOut, code := h.Command(t, "top", "--admin", strings.Join(listeners, ","), "-o", "json")
				<-done
				figures = nil
				if err := json.Unmarshal([]byte(out), &figures); err != nil || code != 0 {
					t.Fatalf("api top: exit code %d: %v: %s%s", code, err, out, errOut)
				}
				rates := figures["accepted_per_second"] != nil && figures["delivered_per_second"] != nil
				return rates && *figures["accepted_per_second"] > 0 && *figures["delivered_per_second"] > 0 &&
					figures["backlog"] != nil
			})
			for _, name := range []string{"dead_deliveries", "failing_receivers", "paused_receivers"} {
				if n := figures[name]; n == nil || *n != 0 {
					t.Errorf("%s are %v", name, n)
				}
			}
			if figures["waiting_deliveries"] == nil {
				t.Error("how many deliveries wait is not shown")
			}
			text, _, code := h.Command(t, "top", "--admin", listeners[0])
			if code != 0 || !strings.Contains(text, "Waiting deliveries") ||
				!strings.Contains(text, "read from "+listeners[0]) || strings.Contains(text, "\x1b") {
				t.Errorf("exit code %d, the text is:\n%s", code, text)
			}
			if _, errOut, code := h.Command(t, "top", "--admin", "127.0.0.1:1"); code != 1 ||
				!strings.Contains(errOut, "read metrics") {
				t.Errorf("of an unknown supplier: exit code %d: %s", code, errOut)
			}
		})
	}
}
