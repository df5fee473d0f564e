package client_test

import (
	"net/http/httptest"
	"testing"

	"github.com/supplyhub/supplyhub/pkg/client"
	"github.com/supplyhub/supplyhub/pkg/client/clienttest"
)

// many is more than two pages have.
const many = 250

// The natural loops change what they iterate over: items chosen or sent again leave the filter.
func TestIterators_yield_each_item_once_while_the_loop_changes_them(t *testing.T) {
	t.Parallel()
	s := clienttest.Start(t, clienttest.Config{})
	c, ctx := s.Client(), t.Context()
	closed := httptest.NewServer(nil)
	closed.Close() // nothing answers here: deliveries are dead at once
	if _, err := c.SetReceiver(ctx, closed.URL); err != nil {
		t.Fatal(err)
	}
	create := func(from, n int64) {
		t.Helper()
		for id := range n {
			if err := c.CreateRequest(ctx, newRequest(from+id)); err != nil {
				t.Fatal(err)
			}
		}
		s.Wait()
	}
	create(0, many)
	t.Run("selected in the loop", func(t *testing.T) {
		selected := map[int64]int{}
		for r, err := range c.Requests(ctx, client.Estimated) {
			if err != nil {
				t.Fatal(err)
			}
			if selected[r.ID]++; r.ID%3 != 0 { // some stay
				if _, err := c.Select(ctx, r.ID, r.Estimates[0].EstimateID); err != nil {
					t.Fatal(err)
				}
			}
		}
		eachOnce(t, selected)
	})
	t.Run("sent again in the loop", func(t *testing.T) {
		if _, err := c.PauseReceiver(ctx); err != nil { // a redelivered one stays pending
			t.Fatal(err)
		}
		again := map[int64]int{}
		for d, err := range c.Deliveries(ctx, client.DeliveryFilter{Status: client.Dead}) {
			if err != nil {
				t.Fatal(err)
			}
			again[d.RequestID]++
			if err := c.Redeliver(ctx, d.ID); err != nil {
				t.Fatal(err)
			}
		}
		eachOnce(t, again)
	})
	t.Run("with more new ones than two pages have", func(t *testing.T) {
		seen := map[int64]int{}
		for r, err := range c.Requests(ctx, "") {
			if err != nil {
				t.Fatal(err)
			}
			if seen[r.ID]++; len(seen) == 100 {
				create(1000, many)
			}
		}
		eachOnce(t, seen)
	})
}

func eachOnce(t *testing.T, seen map[int64]int) {
	t.Helper()
	if len(seen) != many {
		t.Errorf("%d of %d items", len(seen), many)
	}
	for id, n := range seen {
		if n != 1 || id >= many {
			t.Errorf("item %d came %d times", id, n)
		}
	}
}
