package acceptance

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// must and fails make a journey read as one: what was done, and what it came to.
func must(t *testing.T, what string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

func fails(t *testing.T, what string, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("%s: %v, want %v", what, err, want)
	}
}

// clientSelfService is the whole of chapter 8 by the client. It holds against the service and the fake.
func clientSelfService(t *testing.T, c *client.Client) {
	t.Helper()
	receiver, status := switchable(t, http.StatusOK)
	clientReceiver(t, c, receiver)
	failed := clientDeliveries(t, c, status.Store)
	clientRecovery(t, c, failed)
	clientSecrets(t, c, receiver)
	clientMoves(t, c, receiver.URL, status.Store)

	ctx := t.Context()
	must(t, "remove the receiver", c.DeleteReceiver(ctx))
	must(t, "remove it again", c.DeleteReceiver(ctx))
	r, err := c.Receiver(ctx)
	must(t, "look at no receiver", err)
	if r.State != client.ReceiverNone || r.URL != "" {
		t.Errorf("after its removal: %+v", r)
	}
	before, err := c.DeliveryPage(ctx, client.DeliveryFilter{Until: failed.CreatedAt}, 1, "") // never sent again so far
	must(t, "find one that was delivered before", err)
	first := before.Data[0].ID
	must(t, "redeliver without a receiver", c.Redeliver(ctx, first))
	if d := clientDelivery(t, c, first, client.Pending); d.NextAttemptAt.IsZero() {
		t.Errorf("what waits for a receiver: %+v", d.Delivery)
	}
}

// clientReceiver sets the receiver, tests it and leaves it active.
func clientReceiver(t *testing.T, c *client.Client, receiver *apptest.Receiver) {
	t.Helper()
	ctx := t.Context()
	r, err := c.Receiver(ctx)
	must(t, "look at no receiver", err)
	if r.State != client.ReceiverNone || r.URL != "" || r.PausedBy != "" || len(r.Secrets) != 1 ||
		!r.Secrets[0].ExpiresAt.IsZero() || !r.LastSuccessAt.IsZero() {
		t.Errorf("before there is one: %+v", r)
	}
	_, err = c.PauseReceiver(ctx)
	fails(t, "pause without a receiver", err, client.ErrConflict)
	_, err = c.ResumeReceiver(ctx)
	fails(t, "resume without a receiver", err, client.ErrConflict)
	_, err = c.TestReceiver(ctx)
	fails(t, "test without a receiver", err, client.ErrConflict)
	_, err = c.SetReceiver(ctx, "ftp://hooks.example.com")
	var refused *client.Error
	if !errors.As(err, &refused) || !errors.Is(err, client.ErrInvalid) || len(refused.Violations) != 1 ||
		refused.Violations[0].Pointer != "/url" {
		t.Errorf("an address that is none: %v", err)
	}
	r, err = c.SetReceiver(ctx, receiver.URL)
	must(t, "set the receiver", err)
	if r.State != client.ReceiverActive || r.URL != receiver.URL {
		t.Errorf("as it was set: %+v", r)
	}
	test, err := c.TestReceiver(ctx)
	must(t, "test it", err)
	if call := receiver.Calls()[0]; test.Status != 200 || test.Error != "" || test.Response != "answer of the receiver" ||
		call.Header.Get(webhook.HeaderID) != test.ID || !strings.Contains(string(call.Body), webhook.TypeTest) {
		t.Errorf("the test call: %+v", test)
	}
	types, err := c.EventTypes(ctx)
	must(t, "list the event types", err)
	if len(types) != 1 || types[0].Type != webhook.TypeEstimated || types[0].Description == "" ||
		len(types[0].Schema) == 0 || len(types[0].Example) == 0 {
		t.Errorf("the event types: %+v", types)
	}
	link, err := c.CreatePortalSession(ctx)
	must(t, "make a link into the portal", err)
	if left := time.Until(link.ExpiresAt); !strings.Contains(link.URL, "/portal") || left <= 0 || left > 6*time.Minute {
		t.Errorf("the link into the portal lives for %s", left)
	}
}

// clientDeliveries makes one delivery that waited while the receiver was paused, and one that is refused, which it
// returns.
func clientDeliveries(t *testing.T, c *client.Client, answers func(status int64)) client.DeliveryDetail {
	t.Helper()
	ctx := t.Context()
	r, err := c.PauseReceiver(ctx)
	must(t, "pause", err)
	if r.State != client.ReceiverPaused || r.PausedBy != "supplier" {
		t.Errorf("as it was paused: %+v", r)
	}
	first := clientSubmits(t, c)
	waiting := clientFinds(t, c, first, client.Pending)
	if waiting.LastAttempt != nil || waiting.AttemptCount != 0 || waiting.EventType != webhook.TypeEstimated {
		t.Errorf("what waits: %+v", waiting)
	}
	must(t, "redeliver what is pending", c.Redeliver(ctx, waiting.ID))
	_, err = c.ResumeReceiver(ctx)
	must(t, "resume", err)
	if d := clientDelivery(t, c, waiting.ID, client.Delivered); len(d.Attempts) != 1 || d.Attempts[0].Status != 200 ||
		d.Attempts[0].DurationMS == nil || d.Attempts[0].Response != "answer of the receiver" {
		t.Errorf("what was resumed: %+v", d)
	}

	answers(http.StatusGone)
	second := clientSubmits(t, c)
	d := clientDelivery(t, c, clientFinds(t, c, second, client.DeliveryFailed).ID, client.DeliveryFailed)
	var event webhook.Event
	err = json.Unmarshal(d.Event, &event)
	if err != nil || event.Data.RequestID != second || len(d.Attempts) != 1 || d.Attempts[0].Status != 410 ||
		d.LastAttempt == nil || d.LastAttempt.Status != 410 || !d.NextAttemptAt.IsZero() {
		t.Errorf("what was refused: %+v, %v", d, err)
	}
	answers(http.StatusOK)
	r, err = c.ResumeReceiver(ctx)
	must(t, "resume what the 410 paused", err)
	if r.State == client.ReceiverPaused {
		t.Errorf("after the resume: %+v", r)
	}
	must(t, "redeliver", c.Redeliver(ctx, d.ID))
	d = clientDelivery(t, c, d.ID, client.Delivered)
	if len(d.Attempts) != 2 || d.Attempts[0].Number != 1 || d.Attempts[1].Status != 200 {
		t.Errorf("what was sent again: %+v", d)
	}
	_, err = c.Delivery(ctx, "msg_unknown")
	fails(t, "an unknown delivery", err, client.ErrNotFound)
	fails(t, "redeliver an unknown one", c.Redeliver(ctx, "msg_unknown"), client.ErrNotFound)
	return d
}

// clientRecovery finds deliveries by every filter and recovers those that were made since latest.
func clientRecovery(t *testing.T, c *client.Client, latest client.DeliveryDetail) {
	t.Helper()
	ctx := t.Context()
	for name, f := range map[string]struct {
		filter client.DeliveryFilter
		n      int64
	}{
		"all": {client.DeliveryFilter{}, 2}, "delivered": {client.DeliveryFilter{Status: client.Delivered},
			2}, "dead": {client.DeliveryFilter{Status: client.Dead}, 0},
		"of a request": {client.DeliveryFilter{RequestID: &latest.RequestID},
			1}, "since the latest": {client.DeliveryFilter{Since: latest.CreatedAt}, 1},
		"before the latest": {client.DeliveryFilter{Until: latest.CreatedAt},
			1}, "of no time": {client.DeliveryFilter{Since: latest.CreatedAt, Until: latest.CreatedAt}, 0},
	} {
		p, err := c.DeliveryPage(ctx, f.filter, 0, "")
		must(t, name, err)
		n := int64(0)
		for _, err := range c.Deliveries(ctx, f.filter) {
			must(t, name, err)
			n++
		}
		if int64(len(p.Data)) != f.n || n != f.n || p.NextCursor != "" {
			t.Errorf("%s: %d on a page and %d one by one, want %d", name, len(p.Data), n, f.n)
		}
	}
	n, err := c.Recover(ctx, client.Recovery{Status: client.Delivered, Since: latest.CreatedAt,
		Until: latest.CreatedAt.Add(time.Hour)})
	must(t, "recover", err)
	if n != 1 {
		t.Errorf("%d recovered", n)
	}
	wait.Until(t, "the recovered delivery is sent again", func() bool {
		d, err := c.Delivery(ctx, latest.ID)
		must(t, "read a delivery", err)
		return d.Status == client.Delivered && len(d.Attempts) == 3
	})
	for why, status := range map[string]client.DeliveryStatus{"it was sent again within a minute": client.Delivered,
		"all is delivered": client.Undelivered} {
		n, err = c.Recover(ctx, client.Recovery{Status: status, Since: latest.CreatedAt})
		must(t, "recover once more", err)
		if n != 0 {
			t.Errorf("%d recovered although %s", n, why)
		}
	}
}

// clientSecrets rotates the secret and checks who signs.
func clientSecrets(t *testing.T, c *client.Client, receiver *apptest.Receiver) {
	t.Helper()
	ctx := t.Context()
	for _, overlap := range []time.Duration{-time.Second, 168*time.Hour + time.Second} {
		_, err := c.RotateSecret(ctx, overlap)
		fails(t, fmt.Sprint("an overlap of ", overlap), err, client.ErrInvalid)
	}
	signers := func() int {
		r, err := c.Receiver(ctx)
		must(t, "look at the receiver", err)
		return len(r.Secrets)
	}
	second, err := c.RotateSecret(ctx, 168*time.Hour)
	must(t, "rotate", err)
	if n := signers(); n != 2 {
		t.Errorf("%d secrets sign during the overlap", n)
	}
	third, err := c.RotateSecret(ctx, 0)
	must(t, "rotate without overlap", err)
	if n := signers(); n != 1 {
		t.Errorf("%d secrets sign after a rotation without overlap", n)
	}
	_, err = c.TestReceiver(ctx)
	must(t, "test", err)
	calls := receiver.Calls()
	if call := calls[len(calls)-1]; !verifies(t, call, third.Text()) || verifies(t, call, second.Text()) {
		t.Error("the test call is not signed by the newest secret alone")
	}
	for range 6 {
		_, err = c.RotateSecret(ctx, 168*time.Hour)
		must(t, "rotate once more", err)
	}
	if n := signers(); n != 5 {
		t.Errorf("%d secrets sign after many rotations", n)
	}
}

// clientMoves moves a receiver that a 410 paused, and has it begin again as another one. It recovers what was lost
// while the receiver is paused, and leaves it active.
func clientMoves(t *testing.T, c *client.Client, address string, answers func(status int64)) {
	t.Helper()
	ctx := t.Context()
	answers(http.StatusGone)
	refused := clientFinds(t, c, clientSubmits(t, c), client.DeliveryFailed)
	wait.Until(t, "the failure is counted", func() bool {
		r, err := c.Receiver(ctx)
		must(t, "look at the receiver", err)
		return r.State == client.ReceiverPaused && r.ConsecutiveFailures == 1 && r.LastError != ""
	})
	answers(http.StatusOK)
	r, err := c.SetReceiver(ctx, address+"/moved")
	must(t, "move the receiver", err)
	if r.State != client.ReceiverPaused || r.PausedBy != "service" || r.ConsecutiveFailures != 0 || r.LastError != "" ||
		!r.LastFailureAt.IsZero() || !r.LastSuccessAt.IsZero() {
		t.Errorf("as it was moved: %+v", r)
	}
	must(t, "remove the receiver", c.DeleteReceiver(ctx))
	r, err = c.SetReceiver(ctx, address+"//")
	must(t, "set it again", err)
	if r.State != client.ReceiverActive || r.PausedBy != "" || r.URL != address {
		t.Errorf("as it was set again: %+v", r)
	}

	_, err = c.PauseReceiver(ctx)
	must(t, "pause", err)
	waiting := clientFinds(t, c, clientSubmits(t, c), client.Pending)
	_, err = c.Recover(ctx, client.Recovery{Status: client.Undelivered})
	fails(t, "a recovery without a beginning", err, client.ErrInvalid)
	for _, one := range []struct {
		status client.DeliveryStatus
		n      int64
	}{{client.Pending, 0}, {client.Undelivered, 1}} {
		n, err := c.Recover(ctx, client.Recovery{Status: one.status, Since: refused.CreatedAt})
		must(t, "recover while it is paused", err)
		if n != one.n {
			t.Errorf("%d of %s recovered while it is paused, want %d", n, one.status, one.n)
		}
	}
	_, err = c.ResumeReceiver(ctx)
	must(t, "resume", err)
	clientDelivery(t, c, refused.ID, client.Delivered)
	clientDelivery(t, c, waiting.ID, client.Delivered)
}

func clientSubmits(t *testing.T, c *client.Client) int64 {
	t.Helper()
	id := nextID()
	must(t, "create a request", c.CreateRequest(t.Context(),
		client.NewRequest{ID: id, ShopCode: "SP-0042", Materials: []client.Item{
			{MaterialID: 7, Material: "Shelf", SKU: "SHELF-90-W", Width: 90, Height: 30, Quantity: 4},
		}}))
	return id
}

// clientFinds waits for the request's only delivery to have the status.
func clientFinds(t *testing.T, c *client.Client, request int64, status client.DeliveryStatus) (d client.Delivery) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("the delivery of request %d is %s", request, status), func() bool {
		p, err := c.DeliveryPage(t.Context(), client.DeliveryFilter{RequestID: &request, Status: status}, 10, "")
		must(t, "list deliveries", err)
		if len(p.Data) == 1 {
			d = p.Data[0]
		}
		return len(p.Data) == 1
	})
	return d
}

func clientDelivery(t *testing.T, c *client.Client, id string, status client.DeliveryStatus) (d client.DeliveryDetail) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("delivery %s is %s", id, status), func() (is bool) {
		var err error
		d, err = c.Delivery(t.Context(), id)
		must(t, "read a delivery", err)
		return d.Status == status
	})
	return d
}

func clientSelfServiceRules(t *testing.T, h *apptest.Hub) {
	rule(t, "the client sees and repairs its supplier's own deliveries", func(t *testing.T) {
		clientSelfService(t, hubClient(t, h, h.Supplier(t).APIKey, h.HTTP.Transport))
	})
	rule(t, "the client's iterators find everything while the loop sends again what it finds", func(t *testing.T) {
		s := h.Supplier(t, "--webhook-url", apptest.NewReceiver(t, nil).URL)
		c := hubClient(t, h, s.APIKey, h.HTTP.Transport)
		const n = client.MaxLimit + 5
		for range n {
			submit(t, s, nil)
		}
		count := func(status client.DeliveryStatus) (n int) {
			for _, err := range c.Deliveries(t.Context(), client.DeliveryFilter{Status: status}) {
				must(t, "iterate", err)
				n++
			}
			return n
		}
		wait.Until(t, "all are delivered", func() bool { return count(client.Delivered) == n })
		_, err := c.PauseReceiver(t.Context()) // a redelivered one stays pending
		must(t, "pause", err)
		seen := map[string]bool{}
		for d, err := range c.Deliveries(t.Context(), client.DeliveryFilter{Status: client.Delivered}) {
			must(t, "iterate", err)
			must(t, "redeliver", c.Redeliver(t.Context(), d.ID))
			seen[d.ID] = true
		}
		if pending := count(client.Pending); len(seen) != n || pending != n {
			t.Errorf("%d of %d were found and %d are pending", len(seen), n, pending)
		}
	})
}

func TestClienttest_shows_and_repairs_deliveries_as_the_service_does(t *testing.T) {
	t.Parallel()
	s := clienttest.Start(t, clienttest.Config{})
	clientSelfService(t, hubless(t, s))
}
