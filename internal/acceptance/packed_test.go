package acceptance

import (
	"bytes"
	"database/sql"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// packing is a service whose STORE_PACKED is changed, with a supplier who receives webhooks.
type packing struct {
	*testing.T
	h        *apptest.Hub
	s        *apptest.Supplier
	db       *sql.DB
	receiver *apptest.Receiver
}

// set restarts every process with the setting.
func (p packing) set(value string) {
	p.Helper()
	p.h.Env["STORE_PACKED"] = value
	for _, process := range slices.Concat(p.h.APIs, p.h.Workers) {
		process.Stop()
		process.Restart()
	}
}

// expect submits a request and checks whether its body and its event are packed.
func (p packing) expect(packed bool) (id int64) {
	p.Helper()
	id = submit(p.T, p.s, nil)
	becomes(p.T, p.s, id, "estimated")
	var body, event bool
	err := p.db.QueryRowContext(p.Context(), `SELECT r.packed IS NOT NULL AND r.body = '' AND length(r.digest) = 0,
			substr(e.body, 1, 1) <> $2
		FROM material_requests r JOIN webhook_events e ON e.uid = r.uid AND e.round = r.round WHERE r.id = $1`,
		id, []byte("{")).Scan(&body, &event)
	if err != nil {
		p.Fatal(err)
	}
	if body != packed || event != packed {
		p.Errorf("of request %d the body is packed: %t, the event: %t", id, body, event)
	}
	return id
}

// sent returns the bodies of the calls that are about the request, once there are n of them.
func (p packing) sent(id int64, n int) (bodies [][]byte) {
	p.Helper()
	apptest.Eventually(p.T, fmt.Sprintf("%d calls are about request %d", n, id), func() bool {
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

func TestPacked_and_plain_rows_are_read_alike_while_the_setting_changes(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{"STORE_PACKED": "true"}})
			receiver := apptest.NewReceiver(t, nil)
			p := packing{t, h, h.Supplier(t, "--webhook-url", receiver.URL), openDatabase(t, h), receiver}
			if _, err := p.db.ExecContext(t.Context(), `DELETE FROM settings WHERE key = 'lean_rows'`); err != nil {
				t.Fatal(err) // an upgraded installation, where the version before may still serve
			}
			plain := p.expect(false)
			if _, stderr, code := h.Command(t, "migrate", "--finish"); code != 0 {
				t.Fatalf("migrate --finish: %s", stderr)
			}
			p.set("true") // the processes would see it some seconds later
			packed := p.expect(true)
			p.isReadAlike(plain)
			p.set("false")
			later := p.expect(false)
			p.isReadAlike(packed)
			p.areListed(later, packed, plain)
			accounted(t, h)
		})
	}
}

// isReadAlike checks all that is read of a request's body and event.
func (p packing) isReadAlike(id int64) {
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

// areListed checks that the supplier's list has these requests, whole.
func (p packing) areListed(ids ...int64) {
	p.Helper()
	page := list(p.T, p.s, "?status=estimated&limit="+fmt.Sprint(len(ids)))
	if len(page.Data) != len(ids) || page.Next != "" {
		p.Fatalf("%d requests are listed: %+v", len(page.Data), page)
	}
	for i, r := range page.Data {
		if r.ID != ids[i] || len(r.Estimates) == 0 {
			p.Errorf("request %d is listed as %+v", ids[i], r)
		}
	}
}
