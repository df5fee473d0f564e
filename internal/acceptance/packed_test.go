package acceptance

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// packing is a service with a supplier who receives webhooks.
type packing struct {
	*testing.T
	h        *apptest.Hub
	s        *apptest.Supplier
	receiver *apptest.Receiver
}

func TestBodies_are_stored_packed_and_estimates_once_and_read_as_they_came(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			receiver := apptest.NewReceiver(t, nil)
			p := packing{t, h, h.Supplier(t, "--webhook-url", receiver.URL), receiver}
			id := submit(t, p.s, nil)
			estimates := becomes(t, p.s, id, "estimated").Estimates
			var packed, once bool
			err := openDatabase(t, h).QueryRowContext(t.Context(), `
				SELECT substr(r.body, 1, 1) <> $2 AND substr(e.body, 1, 1) <> $2, r.estimates IS NULL
				FROM material_requests r JOIN webhook_events e ON e.uid = r.uid AND e.round = r.round WHERE r.id = $1`,
				id, []byte("{")).Scan(&packed, &once)
			if err != nil || !packed || !once {
				t.Errorf("the bodies are packed: %t, the estimates in the event alone: %t, %v", packed, once, err)
			}
			if page := list(t, p.s, ""); len(page.Data) != 1 || len(page.Data[0].Estimates) != len(estimates) {
				t.Errorf("the list is %+v", page)
			}
			p.isRead(id)
			want(t, selectEstimate(t, p.s, id, read(t, p.s, id).Estimates[0]["estimate_id"]), http.StatusOK)
			if r := read(t, p.s, id); r.Status != "selected" || len(r.Estimates) != len(estimates) {
				t.Errorf("after the selection %+v", r)
			}
			accounted(t, h)
		})
	}
}

// sent returns the bodies of the calls that are about the request, once there are n of them.
func (p packing) sent(id int64, n int) (bodies [][]byte) {
	p.Helper()
	wait.Until(p.T, fmt.Sprintf("%d calls are about request %d", n, id), func() bool {
		bodies = nil
		for _, call := range p.receiver.Calls() {
			if strings.HasSuffix(call.Path, estimatesPath(id)) {
				if _, err := webhook.Verify(call.Header, call.Body, time.Now(), secret(p.T, p.s.WebhookSecret)); err != nil {
					p.Error(err)
				}
				bodies = append(bodies, call.Body)
			}
		}
		return len(bodies) >= n
	})
	return bodies
}

// isRead checks all that is read of a request's body and event.
func (p packing) isRead(id int64) {
	p.Helper()
	path, first := requestPath(id), p.sent(id, 1)[0]
	a := p.s.Do(p.T, http.MethodGet, path, nil)
	want(p.T, a, http.StatusOK)
	got := apptest.Decode[struct{ Materials []object }](p.T, a).Materials
	if len(got) == 0 || got[0]["sku"] != "SHELF-90" {
		p.Errorf("%s: %s", path, a.Body)
	}
	want(p.T, p.s.Do(p.T, http.MethodPost, requests, request(id, nil)), http.StatusCreated) // the equal request again
	other := request(id, object{"comment": "another request with this id"})
	want(p.T, p.s.Do(p.T, http.MethodPost, requests, other), http.StatusConflict)
	shown := supplierDelivery(p.T, p.h, p.s, id, "delivered")
	if event := showDelivery(p.T, p.s, shown.ID).Event; event == nil {
		p.Errorf("the delivery of request %d shows no event", id)
	}
	page := visit(p.T, http.MethodGet, p.h.URL(0, "/portal/requests/"+fmt.Sprint(id)), signIn(p.T, p.s))
	if page.Status != http.StatusOK || !bytes.Contains(page.Body, []byte("SHELF-90")) {
		p.Errorf("the portal's page of request %d: %d", id, page.Status)
	}
	want(p.T, p.s.Do(p.T, http.MethodPost, deliveriesPath+"/"+shown.ID+"/redeliver", nil), http.StatusAccepted)
	if again := p.sent(id, 2)[1]; !bytes.Equal(again, first) {
		p.Errorf("the event of request %d was sent as %s and again as %s", id, first, again)
	}
	want(p.T, p.s.Do(p.T, http.MethodPost, path+"/re-estimate", nil), http.StatusAccepted)
	p.sent(id, 3)
	becomes(p.T, p.s, id, "estimated")
}
