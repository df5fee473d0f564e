package app

import (
	"context"
	"time"
)

const (
	wakeSubject  = "mr.due.deliveries" // no supplier is called due
	wakeInterval = 5 * time.Second
	overdue      = 10 * time.Second
)

// runWake puts a message on the queue while deliveries are overdue: a worker pool that is scaled by the queue's
// length, down to none, would never see a retry that waits in the database alone.
func (a *App) runWake(ctx context.Context) error {
	for {
		pause(ctx, wakeInterval)
		if ctx.Err() != nil {
			return nil
		}
		late, err := a.Deliveries.Overdue(ctx, overdue)
		if err != nil {
			a.log.WarnContext(ctx, "look for overdue deliveries failed", "error", err)
			continue
		}
		if late {
			a.queue.Publish(wakeSubject, nil)
		}
	}
}
