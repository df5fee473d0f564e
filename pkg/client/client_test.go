package client_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

func TestErrors_say_what_is_wrong_and_where(t *testing.T) {
	t.Parallel()
	s, c := started(t)
	ctx := t.Context()
	bad := newRequest(1)
	bad.ShopCode, bad.Materials[0].Quantity = " ", 0
	err := c.CreateRequest(ctx, bad)
	var answer *client.Error
	if !errors.As(err, &answer) || !errors.Is(err, client.ErrInvalid) || len(answer.Violations) != 2 {
		t.Fatalf("got %v", err)
	}
	for _, part := range []string{"POST /api/material-requests: 400 Bad Request", "/shop_code", "/materials/0/quantity",
		answer.RequestID} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	twice := newRequest(1)
	twice.Materials = append(twice.Materials, twice.Materials[0])
	if err := c.CreateRequest(ctx, twice); !errors.As(err, &answer) || !errors.Is(err, client.ErrUnprocessable) ||
		len(answer.Duplicates) != 1 || answer.Duplicates[0].SKU != "SHELF-90" {
		t.Errorf("duplicates: %v", err)
	}
	if _, err := c.Request(ctx, 99); !errors.Is(err, client.ErrNotFound) || errors.Is(err, client.ErrConflict) {
		t.Errorf("an unknown request: %v", err)
	}
	for range c.Orders(ctx) {
	}
	if _, err := c.OrderPage(ctx, 0, ""); !errors.Is(err, client.ErrForbidden) {
		t.Errorf("without the scope: %v", err)
	}
	s.Intercept(func(w http.ResponseWriter, _ *http.Request) bool {
		w.WriteHeader(http.StatusTeapot)
		_, _ = w.Write([]byte("<html>a proxy</html>"))
		return true
	})
	if _, err := c.Request(ctx, 1); !errors.As(err, &answer) || answer.Status != http.StatusTeapot {
		t.Errorf("a proxy's answer: %v", err)
	}
}

func TestRequest_from_creation_to_selection(t *testing.T) {
	t.Parallel()
	s, c := started(t)
	ctx := t.Context()
	s.HoldEstimates()
	for range 2 {
		if err := c.CreateRequest(ctx, newRequest(7)); err != nil {
			t.Fatal(err)
		}
	}
	other := newRequest(7)
	other.Comment = "another one"
	if err := c.CreateRequest(ctx, other); !errors.Is(err, client.ErrConflict) {
		t.Errorf("another content: %v", err)
	}
	if _, err := c.Select(ctx, 7, "est"); !errors.Is(err, client.ErrConflict) {
		t.Errorf("selected too early: %v", err)
	}
	s.Estimate(7)
	r, err := c.Wait(ctx, 7)
	if err != nil || r.Status != client.Estimated || len(r.Estimates) == 0 || *r.Materials[0].Depth != 25.5 {
		t.Fatalf("got %+v, %v", r, err)
	}
	if _, err := c.Select(ctx, 7, "est"); !errors.Is(err, client.ErrUnprocessable) {
		t.Errorf("an unknown estimate: %v", err)
	}
	for range 2 {
		chosen, err := c.Select(ctx, 7, r.Estimates[0].EstimateID)
		if err != nil || chosen.EstimateID != r.Estimates[0].EstimateID || chosen.SelectedAt.IsZero() {
			t.Fatalf("got %+v, %v", chosen, err)
		}
	}
	if err := c.Reestimate(ctx, 7); !errors.Is(err, client.ErrConflict) {
		t.Errorf("estimated again after a selection: %v", err)
	}
}

func TestRequest_that_failed_says_why_and_can_be_estimated_again(t *testing.T) {
	t.Parallel()
	s, c := started(t)
	s.HoldEstimates()
	if err := c.CreateRequest(t.Context(), newRequest(1)); err != nil {
		t.Fatal(err)
	}
	s.Fail(1, "The rate card was not available.")
	r, err := c.Wait(t.Context(), 1)
	if err != nil || r.Status != client.Failed || r.Failure != "The rate card was not available." {
		t.Fatalf("got %+v, %v", r, err)
	}
	if err := c.Reestimate(t.Context(), 1); err != nil {
		t.Fatal(err)
	}
	s.Estimate(1)
	if r, err = c.Wait(t.Context(), 1); err != nil || r.Status != client.Estimated || r.Failure != "" {
		t.Fatalf("got %+v, %v", r, err)
	}
}

func TestPostEstimates_without_a_timestamp_are_of_now_and_stored(t *testing.T) {
	t.Parallel()
	s := clienttest.New(clienttest.Config{Scopes: []string{"material-requests", "estimates:write"}})
	c, ctx := s.Client(), t.Context()
	s.HoldEstimates()
	if err := c.CreateRequest(ctx, newRequest(1)); err != nil {
		t.Fatal(err)
	}
	own := webhook.Event{Type: webhook.TypeEstimated, Data: webhook.Data{SupplierID: s.SupplierID, RequestID: 1,
		ShopCode: "SP-0042", Estimates: []webhook.Estimate{{EstimateID: "own", Service: "road", Carrier: "Own fleet",
			Currency: "BRL", DispatchDate: "2026-11-23", DeliveryDate: "2026-11-27", ValidUntil: time.Now().Add(time.Hour)}}}}
	if err := c.PostEstimates(ctx, own); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Request(ctx, 1); err != nil || r.Status != client.Estimated || len(r.Estimates) != 1 ||
		r.Estimates[0].EstimateID != "own" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestWait_goes_on_for_as_long_as_the_context(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, c := started(t)
		s.HoldEstimates()
		if err := c.CreateRequest(t.Context(), newRequest(1)); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(5*time.Minute, func() { s.Estimate(1) })
		begun := time.Now()
		r, err := c.Wait(t.Context(), 1)
		if err != nil || r.Status != client.Estimated || time.Since(begun) != 5*time.Minute {
			t.Errorf("%v %v after %v", r.Status, err, time.Since(begun))
		}
		if calls := s.Count("GET /api/material-requests/1"); calls > 7 {
			t.Errorf("%d calls in 5 minutes: that is polling", calls)
		}
		if err := c.CreateRequest(t.Context(), newRequest(2)); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := c.Wait(ctx, 2); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v", err)
		}
	})
}

func TestIterators_yield_each_item_once_newest_first(t *testing.T) {
	t.Parallel()
	s, c := started(t)
	ctx := t.Context()
	for id := range int64(250) {
		if err := c.CreateRequest(ctx, newRequest(id)); err != nil {
			t.Fatal(err)
		}
	}
	s.Wait()
	var got []int64
	for r, err := range c.Requests(ctx, client.Estimated) {
		if err != nil {
			t.Fatal(err)
		}
		if got = append(got, r.ID); len(got) == 30 { // pushes 30 items over the edge of the page
			for id := range int64(30) {
				if err := c.CreateRequest(ctx, newRequest(1000+id)); err != nil {
					t.Fatal(err)
				}
			}
			s.Wait()
		}
	}
	if len(got) != 250 || got[0] != 249 || got[249] != 0 ||
		!slices.IsSortedFunc(got, func(a, b int64) int { return int(b - a) }) {
		t.Fatalf("got %d items: %v", len(got), got)
	}
	for _, err := range c.Requests(ctx, "lost") {
		if !errors.Is(err, client.ErrInvalid) {
			t.Errorf("an unknown state: %v", err)
		}
	}
	before := len(s.Calls())
	for range c.Requests(ctx, "") {
		break
	}
	if calls := len(s.Calls()) - before; calls != 1 {
		t.Errorf("%d calls for the first item", calls)
	}
	p, err := c.RequestPage(ctx, "", 270, "")
	if !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a page of 270: %v", err)
	}
	for _, want := range []int{100, 100, 80} {
		if p, err = c.RequestPage(ctx, "", client.MaxLimit, p.NextCursor); err != nil || len(p.Data) != want ||
			(p.NextCursor == "") != (want == 80) {
			t.Fatalf("a page of %d items, next %q: %v", len(p.Data), p.NextCursor, err)
		}
		if _, err := c.RequestPage(ctx, client.Estimated, 0, p.NextCursor); p.NextCursor != "" &&
			!errors.Is(err, client.ErrInvalid) {
			t.Errorf("a cursor of another filter: %v", err)
		}
	}
}

func TestProducts_are_synchronised(t *testing.T) {
	t.Parallel()
	s, c := started(t)
	ctx := t.Context()
	now := time.Now()
	shelf := client.Product{SKU: "SHELF-90", MaterialID: new(int64(7)), Material: "Shelf", WeightKg: new(3.2)}
	step := func(want client.ProductStatus, p client.Product, at time.Time) {
		t.Helper()
		if got, err := c.UpsertProduct(ctx, p, at); err != nil || got != want {
			t.Errorf("got %s %v, want %s", got, err, want)
		}
	}
	step(client.ProductCreated, shelf, now)
	step(client.ProductUnchanged, shelf, now)
	step(client.ProductStale, shelf, now.Add(-time.Hour))
	shelf.WeightKg = new(3.5)
	step(client.ProductUpdated, shelf, now.Add(time.Hour))
	if got, err := c.DeactivateProduct(ctx, "SHELF-90", time.Time{}); err != nil || got != client.ProductDeactivated {
		t.Errorf("got %s %v", got, err)
	}
	if _, err := c.DeactivateProduct(ctx, "nothing", time.Time{}); !errors.Is(err, client.ErrNotFound) {
		t.Errorf("got %v", err)
	}
	if err := c.CreateRequest(ctx, newRequest(1)); err != nil {
		t.Fatal(err)
	}
	s.Wait()
	if r, err := c.Request(ctx, 1); err != nil || len(r.Estimates) != 0 || len(r.Unavailable) == 0 {
		t.Errorf("a request for an inactive product: %+v, %v", r, err)
	}
}

// receiverOf is a whole receiver that fails while failing is true.
func receiverOf(t *testing.T, s *clienttest.Server, failing *bool) (address string, got func() []int64) {
	t.Helper()
	var ids []int64
	server := httptest.NewServer(webhook.Handler([]webhook.Secret{s.WebhookSecret()},
		func(_ context.Context, e webhook.Event) error {
			if *failing {
				return errors.New("out of order")
			}
			ids = append(ids, e.Data.RequestID)
			return nil
		}))
	t.Cleanup(server.Close)
	return server.URL, func() []int64 { s.Wait(); return ids }
}

func TestReceiver_from_the_first_call_to_the_recovery_of_an_outage(t *testing.T) {
	t.Parallel()
	s := clienttest.Start(t, clienttest.Config{})
	c, ctx, failing := s.Client(), t.Context(), false
	if _, err := c.PauseReceiver(ctx); !errors.Is(err, client.ErrConflict) {
		t.Errorf("paused without a receiver: %v", err)
	}
	address, got := receiverOf(t, s, &failing)
	r, err := c.SetReceiver(ctx, address)
	if err != nil || r.URL != address || r.State != client.ReceiverActive || len(r.Secrets) != 1 ||
		!r.Secrets[0].ExpiresAt.IsZero() {
		t.Fatalf("got %+v, %v", r, err)
	}
	if test, err := c.TestReceiver(ctx); err != nil || test.Status != http.StatusNoContent || test.Error != "" ||
		test.ID == "" {
		t.Fatalf("got %+v, %v", test, err)
	}
	send := func(id int64) {
		t.Helper()
		if err := c.CreateRequest(ctx, newRequest(id)); err != nil {
			t.Fatal(err)
		}
		s.Wait()
	}
	send(1)
	failing = true
	for id := range int64(5) {
		send(10 + id)
	}
	if r, err = c.Receiver(ctx); err != nil || r.State != client.ReceiverFailing || r.ConsecutiveFailures != 5 ||
		r.LastError == "" {
		t.Fatalf("got %+v, %v", r, err)
	}
	var dead []client.Delivery
	for d, err := range c.Deliveries(ctx, client.DeliveryFilter{Status: client.Dead}) {
		if err != nil {
			t.Fatal(err)
		}
		dead = append(dead, d)
	}
	if len(dead) != 5 || dead[0].RequestID != 14 || dead[0].LastAttempt == nil || dead[0].LastAttempt.Status != 500 {
		t.Fatalf("got %+v", dead)
	}
	failing = false
	if err := c.Redeliver(ctx, dead[0].ID); err != nil {
		t.Fatal(err)
	}
	s.Wait()
	detail, err := c.Delivery(ctx, dead[0].ID)
	if err != nil || detail.Status != client.Delivered || len(detail.Attempts) != 2 ||
		!strings.Contains(string(detail.Event), `"request_id":14`) {
		t.Fatalf("got %+v, %v", detail, err)
	}
	if n, err := c.Recover(ctx, client.Recovery{Status: client.Dead, Since: dead[4].CreatedAt}); err != nil || n != 4 {
		t.Fatalf("recovered %d, %v", n, err)
	}
	if ids := got(); len(ids) != 6 {
		t.Errorf("the receiver got %v", ids)
	}
	if p, err := c.DeliveryPage(ctx, client.DeliveryFilter{RequestID: new(int64(14))}, 10, ""); err != nil ||
		len(p.Data) != 1 {
		t.Errorf("deliveries of a request: %+v, %v", p, err)
	}
}

func TestReceiver_pause_keeps_and_resume_sends(t *testing.T) {
	t.Parallel()
	s := clienttest.Start(t, clienttest.Config{})
	c, ctx, failing := s.Client(), t.Context(), false
	address, got := receiverOf(t, s, &failing)
	if _, err := c.SetReceiver(ctx, address); err != nil {
		t.Fatal(err)
	}
	if r, err := c.PauseReceiver(ctx); err != nil || r.State != client.ReceiverPaused || r.PausedBy != "supplier" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if err := c.CreateRequest(ctx, newRequest(1)); err != nil {
		t.Fatal(err)
	}
	if ids := got(); len(ids) != 0 {
		t.Fatalf("a paused receiver got %v", ids)
	}
	if r, err := c.ResumeReceiver(ctx); err != nil || r.State != client.ReceiverActive || r.PausedBy != "" {
		t.Fatalf("got %+v, %v", r, err)
	}
	if ids := got(); len(ids) != 1 {
		t.Errorf("the resumed receiver got %v", ids)
	}
	if err := c.DeleteReceiver(ctx); err != nil {
		t.Fatal(err)
	}
	if r, err := c.Receiver(ctx); err != nil || r.State != client.ReceiverNone || r.URL != "" {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestReceiver_secret_rotates_with_an_overlap(t *testing.T) {
	t.Parallel()
	s := clienttest.Start(t, clienttest.Config{})
	c, ctx, failing := s.Client(), t.Context(), false
	address, got := receiverOf(t, s, &failing) // knows the old secret only
	if _, err := c.SetReceiver(ctx, address); err != nil {
		t.Fatal(err)
	}
	fresh, err := c.RotateSecret(ctx, 24*time.Hour)
	if err != nil || !fresh.Equal(s.WebhookSecret()) {
		t.Fatal(err)
	}
	if err := c.CreateRequest(ctx, newRequest(1)); err != nil {
		t.Fatal(err)
	}
	if ids := got(); len(ids) != 1 {
		t.Errorf("during the overlap the receiver got %v", ids)
	}
	if _, err := c.RotateSecret(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if err := c.CreateRequest(ctx, newRequest(2)); err != nil {
		t.Fatal(err)
	}
	if ids := got(); len(ids) != 1 {
		t.Errorf("the old secret still signs: %v", ids)
	}
	if _, err := c.RotateSecret(ctx, 200*time.Hour); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestReceiver_event_types_and_portal(t *testing.T) {
	t.Parallel()
	_, c := started(t)
	types, err := c.EventTypes(t.Context())
	if err != nil || len(types) != 1 || types[0].Type != webhook.TypeEstimated || len(types[0].Schema) == 0 ||
		len(types[0].Example) == 0 {
		t.Errorf("got %+v, %v", types, err)
	}
	if p, err := c.CreatePortalSession(t.Context()); err != nil || p.URL == "" || !p.ExpiresAt.After(time.Now()) {
		t.Errorf("got %+v, %v", p, err)
	}
}
