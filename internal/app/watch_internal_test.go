package app

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// An api that goes is missed by its workers long before its deliveries are given up.
func TestWatch_says_within_two_minutes_that_something_works_no_more_or_again(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		a := pipeline{log: slog.New(slog.NewTextHandler(&log, nil))}
		var broken atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() {
			ended <- a.watch(ctx, "ESTIMATES_WEBHOOK_BASE_URL", failsFor, func(context.Context) error {
				if broken.Load() {
					return errors.New("it does not answer")
				}
				return nil
			})
		}()
		for _, now := range []bool{false, true, false} {
			broken.Store(now)
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			if fault, _ := a.watches.Load("ESTIMATES_WEBHOOK_BASE_URL"); (fault != nil) != now {
				t.Errorf("broken: %t; two minutes later: %v", now, fault)
			}
		}
		if !strings.Contains(log.String(), `level=WARN msg="ESTIMATES_WEBHOOK_BASE_URL does not work"`) {
			t.Error(log.String())
		}
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}
