package acceptance

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/httpapi/openapitest"
	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// hubClient is pkg/client at the first api, every answer checked against the OpenAPI document.
func hubClient(t *testing.T, h *apptest.Hub, key string, transport http.RoundTripper) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{BaseURL: h.URL(0, ""), APIKey: key,
		HTTP: &http.Client{Transport: transport, Timeout: h.HTTP.Timeout}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// counting counts the calls of each path.
type counting struct {
	next  http.RoundTripper
	calls sync.Map // path → *atomic.Int64
}

func (c *counting) RoundTrip(r *http.Request) (*http.Response, error) {
	n, _ := c.calls.LoadOrStore(r.URL.Path, new(atomic.Int64))
	n.(*atomic.Int64).Add(1)
	return c.next.RoundTrip(r)
}

func (c *counting) count(path string) int64 {
	n, ok := c.calls.Load(path)
	if !ok {
		return 0
	}
	return n.(*atomic.Int64).Load()
}

func clientRules(t *testing.T, h *apptest.Hub) {
	rule(t, "the client goes all the way from a token to an order", func(t *testing.T) {
		s := h.Supplier(t, "--scopes", "material-requests,products,orders:read,estimates:write")
		clientJourney(t, hubClient(t, h, s.APIKey, h.HTTP.Transport))
	})
	rule(t, "of two products or estimates the one with the later time is kept", func(t *testing.T) {
		s := h.Supplier(t, "--scopes", "material-requests,products,estimates:write")
		db := openDatabase(t, h)
		clientTimes(t, hubClient(t, h, s.APIKey, h.HTTP.Transport), func(id int64) {
			_, err := db.ExecContext(t.Context(), fmt.Sprintf(`UPDATE material_requests SET status = 'failed', failure = 'No.'
				WHERE supplier_id = '%s' AND id = %d`, s.ID, id))
			must(t, "let the request fail", err)
		})
	})
	rule(t, "the client renews a token that runs out, once for all callers, and never asks with an old one",
		func(t *testing.T) {
			s := h.Supplier(t, "--access-ttl", "2s")
			transport := &counting{next: h.HTTP.Transport}
			c := hubClient(t, h, s.APIKey, transport)
			var refused atomic.Int64
			wait.Until(t, "three refreshes", func() bool {
				var all sync.WaitGroup
				for range 8 {
					all.Go(func() {
						if _, err := c.Ping(t.Context()); err != nil {
							refused.Add(1)
							t.Errorf("ping: %v", err)
						}
					})
				}
				all.Wait()
				return transport.count(refreshPath) >= 3 || refused.Load() > 0
			})
			if n := transport.count(tokenPath); n != 1 {
				t.Errorf("the API key was presented %d times, want once", n)
			}
		})
	rule(t, "the client begins a new session when its own was ended", func(t *testing.T) {
		s := h.Supplier(t)
		transport := &counting{next: h.HTTP.Transport}
		c := hubClient(t, h, s.APIKey, transport)
		for range 2 {
			if _, err := c.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			if err := c.Revoke(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if n := transport.count(tokenPath); n != 2 {
			t.Errorf("the API key was presented %d times, want twice", n)
		}
	})
	rule(t, "the client names a wrong key and a missing scope", func(t *testing.T) {
		if _, err := hubClient(t, h, "hub_sk_wrong", h.HTTP.Transport).Ping(t.Context()); !errors.Is(err,
			client.ErrUnauthorized) {
			t.Errorf("a wrong key: %v", err)
		}
		c := hubClient(t, h, h.Supplier(t).APIKey, h.HTTP.Transport)
		if _, err := c.OrderPage(t.Context(), 0, ""); !errors.Is(err, client.ErrForbidden) {
			t.Errorf("a missing scope: %v", err)
		}
	})
	rule(t, "a receiver made by webhook.Handler takes each call once", func(t *testing.T) {
		s := h.Supplier(t)
		receiver := newHandlerReceiver(t, s)
		s2 := apptest.MustCommand[object](t, h, "supplier", "update", s.ID, "--webhook-url", receiver.URL)
		if s2["id"] != s.ID {
			t.Fatalf("got %v", s2)
		}
		id := submit(t, s, nil)
		var events []webhook.Event
		wait.Until(t, "the handler got the event", func() bool { events = receiver.Events(); return len(events) > 0 })
		if events[0].Data.RequestID != id || len(events[0].Data.Estimates) == 0 || len(events) != 1 {
			t.Errorf("got %+v", events)
		}
	})
}

// The fake must not promise what the service does not do: it goes the same way under the same document.
func TestClienttest_answers_as_the_service_does(t *testing.T) {
	t.Parallel()
	s := clienttest.Start(t, clienttest.Config{Scopes: []string{"material-requests", "products", "orders:read",
		"estimates:write"}})
	c := hubless(t, s)
	clientJourney(t, c)
	clientTimes(t, c, func(id int64) {
		s.HoldEstimates()
		must(t, "estimate again", c.Reestimate(t.Context(), id))
		s.Fail(id, "No.")
	})
	s.ExpireAccessTokens()
	s.EndSessions()
	if _, err := c.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	s.Deactivate()
	s.ExpireAccessTokens()
	if _, err := c.Ping(t.Context()); !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("a deactivated supplier: %v", err)
	}
}

// hubless is pkg/client at the fake, every answer checked against the OpenAPI document.
func hubless(t *testing.T, s *clienttest.Server) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{BaseURL: s.URL, APIKey: s.APIKey, HTTP: &http.Client{
		Transport: openapitest.Validator(t).Transport(t, http.DefaultTransport),
	}})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// clientJourney is what a supplier does: sign in, synchronise, ask, wait, choose, look up. It holds against the service
// and the fake.
func clientJourney(t *testing.T, c *client.Client) {
	t.Helper()
	ctx, id := t.Context(), nextID()
	must := func(what string, err error) {
		t.Helper()
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
	}
	fails := func(what string, err, want error) {
		t.Helper()
		if !errors.Is(err, want) {
			t.Errorf("%s: %v, want %v", what, err, want)
		}
	}
	ping, err := c.Ping(ctx)
	must("ping", err)
	if ping.Supplier.ID == "" || ping.Supplier.Name == "" || ping.ExpiresIn < 800 {
		t.Errorf("ping: %+v", ping)
	}
	product := client.Product{SKU: "SHELF-90-W", MaterialID: new(int64(7)), Material: "Shelf", WeightKg: new(3.2),
		ProductionDays: new(int64(2))}
	for _, want := range []client.ProductStatus{client.ProductCreated, client.ProductUnchanged} {
		got, err := c.UpsertProduct(ctx, product, time.Now())
		must("synchronise", err)
		if got != want {
			t.Errorf("the product is %s, want %s", got, want)
		}
	}
	product.SKU = "SHELF-OLD"
	_, err = c.UpsertProduct(ctx, product, time.Time{})
	must("synchronise another", err)
	for _, want := range []client.ProductStatus{client.ProductDeactivated, client.ProductUnchanged} {
		got, err := c.DeactivateProduct(ctx, "SHELF-OLD", time.Time{})
		must("deactivate", err)
		if got != want {
			t.Errorf("the product is %s, want %s", got, want)
		}
	}
	_, err = c.DeactivateProduct(ctx, "UNKNOWN", time.Time{})
	fails("an unknown product", err, client.ErrNotFound)

	r := client.NewRequest{ID: id, ShopCode: "SP-0042", Comment: "Back door", Materials: []client.Item{
		{MaterialID: 7, Material: "Shelf", SKU: "SHELF-90-W", Width: 90, Height: 30, Depth: new(25.5), Quantity: 4},
	}}
	must("create", c.CreateRequest(ctx, r))
	must("create again", c.CreateRequest(ctx, r))
	other := r
	other.Comment = "Front door"
	fails("another content", c.CreateRequest(ctx, other), client.ErrConflict)
	clientRefusals(t, c, r)

	got, err := c.Wait(ctx, id)
	must("wait", err)
	if got.Status != client.Estimated || len(got.Estimates) == 0 || got.Comment != r.Comment ||
		got.ShopCode != r.ShopCode || *got.Materials[0].Depth != 25.5 {
		t.Fatalf("got %+v", got)
	}
	_, err = c.Select(ctx, id, "est_unknown")
	fails("an unknown estimate", err, client.ErrUnprocessable)
	for range 2 {
		chosen, err := c.Select(ctx, id, got.Estimates[0].EstimateID)
		must("select", err)
		if chosen.ID != id || chosen.EstimateID != got.Estimates[0].EstimateID || chosen.SelectedAt.IsZero() {
			t.Errorf("selected %+v", chosen)
		}
	}
	_, err = c.Select(ctx, id, "another")
	fails("another selection", err, client.ErrConflict)
	fails("fresh estimates after a selection", c.Reestimate(ctx, id), client.ErrConflict)
	_, err = c.Request(ctx, id+1_000_000)
	fails("an unknown request", err, client.ErrNotFound)
	clientListings(t, c, id)

	r.ID = nextID()
	must("create another", c.CreateRequest(ctx, r))
	_, err = c.Wait(ctx, r.ID)
	must("wait for it", err)
	must("post no estimates", c.PostEstimates(ctx, webhook.Event{Type: webhook.TypeEstimated, Timestamp: time.Now(),
		Data: webhook.Data{SupplierID: ping.Supplier.ID, RequestID: r.ID, ShopCode: "SP-0042"}}))
	got, err = c.Request(ctx, r.ID)
	must("read it", err)
	if got.Status != client.Estimated || len(got.Estimates)+len(got.Unavailable) > 0 {
		t.Errorf("after no estimates were posted: %+v", got)
	}
}

// clientRefusals checks that every violation comes back with its place.
func clientRefusals(t *testing.T, c *client.Client, valid client.NewRequest) {
	t.Helper()
	bad := valid
	bad.ShopCode = " "
	bad.Materials = []client.Item{{MaterialID: 7, Material: strings.Repeat("x", 256), SKU: "A", Width: -1, Height: 1,
		Quantity: 0}}
	err := c.CreateRequest(t.Context(), bad)
	var refused *client.Error
	if !errors.As(err, &refused) || !errors.Is(err, client.ErrInvalid) {
		t.Fatalf("an invalid request: %v", err)
	}
	places := map[string]bool{}
	for _, v := range refused.Violations {
		places[v.Pointer] = true
	}
	for _, place := range []string{"/shop_code", "/materials/0/material", "/materials/0/width", "/materials/0/quantity"} {
		if !places[place] || len(places) != 4 {
			t.Errorf("%s is not named, or more than it: %v", place, refused.Violations)
		}
	}
	twice := valid
	twice.Materials = append(append([]client.Item{}, valid.Materials...), valid.Materials...)
	if err := c.CreateRequest(t.Context(), twice); !errors.As(err, &refused) ||
		!errors.Is(err, client.ErrUnprocessable) || len(refused.Duplicates) != 1 {
		t.Errorf("repeated items: %v", err)
	}
}

// clientListings finds the selected request in every listing.
func clientListings(t *testing.T, c *client.Client, id int64) {
	t.Helper()
	found := 0
	for r, err := range c.Requests(t.Context(), client.Selected) {
		if err != nil {
			t.Fatal(err)
		}
		if r.ID == id && r.SelectedEstimateID != "" {
			found++
		}
	}
	p, err := c.RequestPage(t.Context(), "", 1, "")
	if err != nil || len(p.Data) != 1 {
		t.Errorf("a page of one: %+v, %v", p, err)
	}
	if _, err = c.RequestPage(t.Context(), client.Failed, 1, p.NextCursor+"x"); !errors.Is(err, client.ErrInvalid) {
		t.Errorf("a cursor that is none: %v", err)
	}
	for o, err := range c.Orders(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		if o.ID == id && o.SelectedEstimate.EstimateID == o.SelectedEstimateID && !o.SelectedAt.IsZero() {
			found++
			break
		}
	}
	if found != 2 {
		t.Errorf("the request was found in %d of 2 listings", found)
	}
}
