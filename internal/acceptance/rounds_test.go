package acceptance

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// roundRules: an event of an earlier round, or of a former life of an id, changes nothing.
func roundRules(t *testing.T, h *apptest.Hub) {
	rule(t, "an event ahead of the clock does not stop the next round", func(t *testing.T) {
		s := h.Supplier(t, "--scopes", "material-requests,estimates:write")
		id := submit(t, s, nil)
		becomes(t, s, id, "estimated")
		ahead := event(s, id, time.Now().Add(3*time.Minute), "ahead")
		wantBody(t, s.Do(t, http.MethodPost, estimatesPath(id), ahead), 200, object{"status": "estimated", "id": id})
		want(t, reestimate(t, s, id), http.StatusAccepted)
		if r := becomes(t, s, id, "estimated"); r.Estimates[0]["estimate_id"] == "ahead" {
			t.Errorf("the next round has %v", r.Estimates)
		}
		wantProblem(t, s.Do(t, http.MethodPost, estimatesPath(id), event(s, id, time.Now().Add(6*time.Minute), "x")), 400,
			"/timestamp")
	})
	rule(t, "the own delivery of an earlier round is answered 200 and changes nothing", func(t *testing.T) {
		receiver := apptest.NewReceiver(t, nil)
		s := h.Supplier(t, "--webhook-url", receiver.URL)
		id := submit(t, s, nil)
		first := becomes(t, s, id, "estimated")
		wait.Until(t, "the receiver has the event", func() bool { return len(receiver.Calls()) >= 1 })
		old := json.RawMessage(receiver.Calls()[0].Body) // the own endpoint got the same event
		deliveries := apptest.MustCommand[[]struct{ ID, Destination string }](t, h, "delivery", "list", "--supplier", s.ID)
		var own string
		for _, d := range deliveries {
			if d.Destination == "own" {
				own = d.ID
			}
		}
		want(t, reestimate(t, s, id), http.StatusAccepted)
		second := becomes(t, s, id, "estimated")
		signed := sign(t, own, time.Now(), old, secret(t, h.ServiceSecret(t)))
		wantBody(t, h.Do(t, http.MethodPost, estimatesPath(id), old, signed...), 200, object{"status": "estimated", "id": id})
		if r := read(t, s, id); r.Estimates[0]["estimate_id"] != second.Estimates[0]["estimate_id"] ||
			first.Estimates[0]["estimate_id"] == second.Estimates[0]["estimate_id"] {
			t.Errorf("the request went back to %v", r.Estimates)
		}
	})
}
