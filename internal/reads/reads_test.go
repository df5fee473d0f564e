package reads_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/reads"
)

const fresh = 2 * time.Second

func TestGet_a_hundred_viewers_cost_one_read(t *testing.T) {
	t.Parallel()
	now := time.Unix(1000, 0)
	c := reads.New[any](4, fresh, wait.Limit, func() time.Time { return now })
	var reads atomic.Int64
	release := make(chan struct{})
	view := func(context.Context) (any, error) {
		<-release
		return reads.Add(1), nil
	}
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			if got, err := c.Get(t.Context(), "page", view); got != int64(1) || err != nil {
				t.Errorf("got %v, %v", got, err)
			}
		})
	}
	close(release)
	wg.Wait()
	if got, _ := c.Get(t.Context(), "page", view); got != int64(1) {
		t.Errorf("read again within two seconds: %v", got)
	}
	now = now.Add(fresh + time.Millisecond)
	if got, _ := c.Get(t.Context(), "page", view); got != int64(2) {
		t.Errorf("not read again after two seconds: %v", got)
	}
	c.Forget()
	if got, _ := c.Get(t.Context(), "page", view); got != int64(3) {
		t.Errorf("not read again after an action: %v", got)
	}
}

func TestGet_an_error_is_not_kept_and_a_viewer_who_leaves_stops_no_other(t *testing.T) {
	t.Parallel()
	c := reads.New[any](4, fresh, wait.Limit, time.Now)
	fault := errors.New("away")
	if _, err := c.Get(t.Context(), "page", func(context.Context) (any, error) { return nil, fault }); !errors.Is(err,
		fault) {
		t.Fatal(err)
	}
	gone, leave := context.WithCancel(t.Context())
	leave()
	got, err := c.Get(gone, "page", func(ctx context.Context) (any, error) { return "read", ctx.Err() })
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(got, err)
	}
	if got, err := c.Get(t.Context(), "page",
		func(context.Context) (any, error) { return "again", nil }); got != "read" || err != nil {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestGet_a_panic_is_an_error_and_the_process_lives(t *testing.T) {
	t.Parallel()
	c := reads.New[int](4, fresh, wait.Limit, time.Now)
	_, err := c.Get(t.Context(), "page", func(context.Context) (int, error) { panic("a defect") })
	if err == nil || !strings.Contains(err.Error(), "a defect") || !strings.Contains(err.Error(), "reads_test.go") {
		t.Errorf("the error is %v", err)
	}
	got, err := c.Get(t.Context(), "page", func(context.Context) (int, error) { return 7, nil })
	if got != 7 || err != nil {
		t.Errorf("afterwards %v, %v", got, err)
	}
}

func TestGet_keeps_nothing_without_an_age(t *testing.T) {
	t.Parallel()
	c := reads.New[int](4, 0, wait.Limit, func() time.Time { return time.Unix(1000, 0) })
	for want := range 3 {
		if got, err := c.Get(t.Context(), "page", func(context.Context) (int, error) { return want, nil }); got != want {
			t.Errorf("read %d: %d, %v", want, got, err)
		}
	}
}
