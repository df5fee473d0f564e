package deliveries

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

// verifyBatch is how many rows one statement of Verify looks at.
const verifyBatch = 5000

// mostFaults is how many faults of one kind are named.
const mostFaults = 1000

// The faults that Verify finds, in the order of its report. verifiedRow.faults has all but the last.
var faultTexts = [...]string{
	"delivery %s has no event",
	"delivery %s is delivered and its last attempt was not answered 2xx",
	"delivery %s lacks attempts",
	"delivery %s has been in a worker's hands for longer than an attempt takes",
	"event %s has no delivery to the own endpoint",
}

const noOwnFault = len(faultTexts) - 1

// Ledger is what Verify found: how many deliveries are in each status, and every one that is not accounted for.
type Ledger struct {
	Deliveries map[Status]int64 `json:"deliveries"`
	Faults     []string         `json:"faults"` // never nil
}

// verification is a Verify under way.
type verification struct {
	store *store
	// an attempt that began before should have ended, with its result written: f finds such ones within seconds, so one
	// that is older is a fault of the service
	stuck  time.Time
	counts map[Status]int64
	faults [len(faultTexts)][]string
}

// Verify goes through all deliveries and events, in batches by their keys. Each delivery must have its event, and each
// event its delivery to the own endpoint. Delivered ones were answered 2xx, no attempt is missing, and none is stuck.
// It names up to mostFaults of each kind.
func (d *Keeper) Verify(ctx context.Context) (Ledger, error) {
	v := &verification{store: d.store, stuck: d.deps.Now().Add(-d.deps.Stuck),
		counts: map[Status]int64{Pending: 0, Delivered: 0, Dead: 0, Failed: 0}}
	for _, walk := range []func(context.Context) error{v.deliveries, v.events} {
		if err := walk(ctx); err != nil {
			return Ledger{}, fmt.Errorf("verify webhook deliveries: %w", err)
		}
	}
	return Ledger{Deliveries: v.counts, Faults: append([]string{}, slices.Concat(v.faults[:]...)...)}, nil
}

// deliveries counts every delivery and notes its faults. A delivery that is made meanwhile is checked too where its id
// is behind the place that the walk has reached.
func (v *verification) deliveries(ctx context.Context) error {
	for after := ""; ; {
		batch, err := v.store.verified(ctx, after, verifyBatch, v.stuck)
		if err != nil || len(batch) == 0 {
			return err
		}
		for _, row := range batch {
			v.counts[row.status]++
			for kind, found := range row.faults {
				if found {
					v.note(kind, row.id)
				}
			}
		}
		after = batch[len(batch)-1].id
	}
}

// events looks for events that no delivery brings to the own endpoint: their requests would never be estimated.
func (v *verification) events(ctx context.Context) error {
	for after := (round.Round{UID: -1}); ; {
		batch, lost, err := v.store.withoutOwn(ctx, after, verifyBatch)
		if err != nil || len(batch) == 0 {
			return err
		}
		for _, r := range lost {
			v.note(noOwnFault, fmt.Sprintf("%d/%d", r.UID, r.Number))
		}
		after = batch[len(batch)-1]
	}
}

func (v *verification) note(kind int, id string) {
	if len(v.faults[kind]) < mostFaults {
		v.faults[kind] = append(v.faults[kind], fmt.Sprintf(faultTexts[kind], id))
	}
}
