package webhooks

import (
	"context"
	"fmt"
	"time"
)

// pruneBatch is how many events are deleted in one transaction.
const pruneBatch = 500

// Prune deletes the events made before the given time with their deliveries and attempts, and tells how many events
// they were. An event with a delivery that is still tried stays.
func (d *Dispatcher) Prune(ctx context.Context, before time.Time) (deleted int64, err error) {
	for last := ""; ctx.Err() == nil; {
		var n int64
		err := d.deps.DB.InTx(ctx, func(ctx context.Context) (err error) {
			n, last, err = d.store.prune(ctx, last, firstID(before), pruneBatch)
			return err
		})
		if err != nil {
			return deleted, fmt.Errorf("prune webhook events: %w", err)
		}
		if deleted += n; last == "" {
			return deleted, nil
		}
	}
	return deleted, ctx.Err()
}
