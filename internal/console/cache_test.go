package console

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestCache_a_hundred_viewers_cost_one_read(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	c := cacheAt(t, func() time.Time { return now })
	var reads atomic.Int64
	release := make(chan struct{})
	view := func(context.Context) (any, error) {
		<-release
		return reads.Add(1), nil
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if got, err := c.read(t.Context(), "page", view); got != int64(1) || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	close(release)
	wg.Wait()
	if got, _ := c.read(t.Context(), "page", view); got != int64(1) {
		t.Errorf("read again within two seconds: %v", got)
	}
	now = now.Add(fresh + time.Millisecond)
	if got, _ := c.read(t.Context(), "page", view); got != int64(2) {
		t.Errorf("not read again after two seconds: %v", got)
	}
	c.forget()
	if got, _ := c.read(t.Context(), "page", view); got != int64(3) {
		t.Errorf("not read again after an action: %v", got)
	}
}

func TestCache_an_error_is_not_kept_and_a_viewer_who_leaves_stops_no_other(t *testing.T) {
	t.Parallel()
	c := cacheAt(t, time.Now)
	fault := errors.New("away")
	if _, err := c.read(t.Context(), "page", func(context.Context) (any, error) { return nil, fault }); !errors.Is(err,
		fault) {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	got, err := c.read(gone, "page", func(ctx context.Context) (any, error) { return "read", ctx.Err() })
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(got, err)
	}
	if got, err := c.read(t.Context(), "page",
		func(context.Context) (any, error) { return "again", nil }); got != "read" || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func cacheAt(t *testing.T, now func() time.Time) *cache {
	t.Helper()
	c, err := newCache(now)
	if err != nil {
		t.Fatal(err)
	}
	return c
}
