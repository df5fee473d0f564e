package webhooks

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/round"
)

// Ledger is what Verify found: how many deliveries are in each status, and every one that is not accounted for.
type Ledger struct {
	Deliveries map[Status]int64 `json:"deliveries"`
	Faults     []string         `json:"faults"` // never nil
}

// verifyBatch is how many rows one statement of Verify looks at.
const verifyBatch = 5000

// Verify goes through all deliveries and events, in batches: each delivery has its event and each event its delivery to the own
// endpoint, what is delivered was answered 2xx, and no attempt is missing. Of each kind mostFaults are named. seen is told how
// many rows were looked at so far.
func (d *Dispatcher) Verify(ctx context.Context, seen func(int64)) (Ledger, error) {
	ledger := Ledger{Deliveries: map[Status]int64{Pending: 0, Delivered: 0, Dead: 0, Failed: 0}, Faults: []string{}}
	faults, n := map[string][]string{}, int64(0)
	for _, walk := range []func(context.Context, *Ledger, map[string][]string, func(int)) error{d.store.verifyDeliveries, d.store.verifyEvents} {
		err := walk(ctx, &ledger, faults, func(rows int) {
			n += int64(rows)
			seen(n)
		})
		if err != nil {
			return Ledger{}, fmt.Errorf("verify webhook deliveries: %w", err)
		}
	}
	for _, fault := range []string{noEvent, noOwn, notAnswered, lacksAttempts} {
		for _, id := range faults[fault] {
			ledger.Faults = append(ledger.Faults, fmt.Sprintf(fault, id))
		}
	}
	return ledger, nil
}

// Underway returns those of the rounds that have a delivery to the own endpoint that is still tried.
func (d *Dispatcher) Underway(ctx context.Context, rounds []round.Round) (map[round.Round]bool, error) {
	return d.store.underway(ctx, rounds)
}
