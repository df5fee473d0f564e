package webhooks

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/round"
)

// Forget deletes the events of all rounds of the requests, given the round that each is in, with their deliveries,
// attempts and whatever is still tried of them, and returns how many events they were. It joins the transaction in ctx.
func (d *Dispatcher) Forget(ctx context.Context, latest []round.Round) (events int64, err error) {
	if events, err = d.store.forget(ctx, latest); err != nil {
		return 0, fmt.Errorf("delete webhook events: %w", err)
	}
	return events, nil
}

// RoundOf returns the numbers of an own delivery that was made before webhook-ids followed from rounds; own is false
// when there is none of that id.
func (d *Dispatcher) RoundOf(ctx context.Context, webhookID string) (uid, number int64, own bool, err error) {
	return d.store.roundOf(ctx, webhookID)
}
