package acceptance

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

func TestTop_prints_the_overview_of_all_processes(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
			var figures map[string]*float64
			wait.Until(t, "what is accepted and delivered shows", func() bool {
				for range 20 {
					submit(t, s, nil)
				}
				out, errOut, code := h.Command(t, "top", "-o", "json")
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
			text, _, code := h.Command(t, "top")
			if code != 0 || !strings.Contains(text, "Waiting deliveries") || strings.Contains(text, "\x1b") {
				t.Errorf("exit code %d, the text is:\n%s", code, text)
			}
		})
	}
}
