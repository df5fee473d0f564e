package clienttest_test

import (
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
)

// The race detector looks on, as it does in a supplier's own tests.
func TestReads_while_estimates_come_and_deliveries_are_settled(t *testing.T) {
	t.Parallel()
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(receiver.Close)
	s := clienttest.Start(t, clienttest.Config{})
	c, ctx := s.Client(), t.Context()
	if _, err := c.SetReceiver(ctx, receiver.URL); err != nil {
		t.Fatal(err)
	}
	create := func(id int64) error {
		return c.CreateRequest(ctx, client.NewRequest{ID: id, ShopCode: "SP-1", Materials: []client.Item{
			{MaterialID: 1, Material: "Shelf", SKU: "A", Width: 1, Height: 1, Quantity: 1},
		}})
	}
	if err := create(1); err != nil {
		t.Fatal(err)
	}
	written := make(chan struct{})
	go func() {
		defer close(written)
		for id := range int64(200) {
			if err := create(id + 2); err != nil {
				t.Error(err)
			}
		}
		s.Wait()
	}()
	var readers sync.WaitGroup
	for _, read := range []func() error{
		func() error { _, err := c.DeliveryPage(ctx, client.DeliveryFilter{}, 100, ""); return err },
		func() error { _, err := c.RequestPage(ctx, "", 100, ""); return err },
		func() error { _, err := c.Request(ctx, 1); return err },
		func() error { _, err := c.Receiver(ctx); return err },
	} {
		readers.Go(func() {
			for {
				if err := read(); err != nil {
					t.Error(err)
				}
				select {
				case <-written:
					return
				default:
				}
			}
		})
	}
	readers.Wait()
}
