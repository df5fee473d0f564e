// Package sleep waits no longer than its context lives.
package sleep

import (
	"context"
	"time"
)

// For waits for d or until ctx ends.
func For(ctx context.Context, d time.Duration) { Until(ctx, d, nil) }

// Until waits for d, a wake-up or the end of ctx, the first of them.
func Until(ctx context.Context, d time.Duration, woken <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-woken:
	case <-ctx.Done():
	}
}

// Wake leaves a note for who waits for one, unless a note is there already. The channel has room for one.
func Wake(notes chan<- struct{}) {
	select {
	case notes <- struct{}{}:
	default:
	}
}
