package acceptance

import (
	"net/http"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

func TestUpgrade_rolls_under_load(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{LeastRights: true,
		Env: map[string]string{"WEBHOOK_RETRY_SCHEDULE": strings.TrimSuffix(strings.Repeat("1s,", 100), ",")}})
	receiver := newCountingReceiver(t)
	s := h.Supplier(t, "--access-ttl", "2h", "--webhook-url", receiver.url+"/estimates")
	receiver.expect(secret(t, s.WebhookSecret))
	c := &chaos{t: t, hub: h, supplier: s, receiver: receiver}
	l := c.startClients()
	l.reaches(t, 30)
	h.Next = true
	if _, errOut, code := h.Command(t, "migrate"); code != 0 {
		t.Fatalf("migrate while the version before runs: exit code %d: %s", code, errOut)
	}
	l.reaches(t, 30) // by the version before alone, on the next schema
	h.Next = false
	if _, errOut, code := h.Command(t, "supplier", "list"); code != 1 || !strings.Contains(errOut, "newer") {
		t.Errorf("a command of the version before: exit code %d: %s", code, errOut)
	}
	for _, next := range []bool{false, true} { // one of the version before that ends may start again
		h.Next = next
		for _, p := range []*apptest.Process{h.APIs[1], h.Workers[1], h.Workers[0], h.APIs[0]} {
			stop(t, p)
			p.Restart()
			l.reaches(t, 30)
		}
	}
	accepted := l.end()
	wait.Until(t, "everything accepted is estimated and delivered", func() bool {
		return receiver.outcome(accepted).lost == 0 && c.estimated(accepted) == len(accepted)
	})
	if o := receiver.outcome(accepted); o.twoIDs > 0 {
		t.Errorf("%d requests were delivered under two ids", o.twoIDs)
	}
	accounted(t, h)
}

func TestUpgrade_of_the_embedded_default_takes_what_is_stored_along(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	s := h.Supplier(t)
	id := submit(t, s, nil)
	becomes(t, s, id, "estimated")
	h.Next = true
	stop(t, h.APIs[0])
	h.APIs[0].Restart()
	want(t, selectEstimate(t, s, id, read(t, s, id).Estimates[0]["estimate_id"]), http.StatusOK)
	becomes(t, s, submit(t, s, nil), "estimated")
	accounted(t, h)
}
