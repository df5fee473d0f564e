package webhooks

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/round"
)

// Forget deletes the events of all rounds of the requests, with their deliveries, attempts and whatever is
// still tried of them, and returns how many events they were. It joins the transaction in ctx.
func (d *Dispatcher) Forget(ctx context.Context, requests []round.Round) (events int64, err error) {
	if events, err = d.store.forget(ctx, requests); err != nil {
		return 0, fmt.Errorf("delete webhook events: %w", err)
	}
	return events, nil
}
