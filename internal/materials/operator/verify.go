package operator

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	verifyBatch = 5000
	mostFaults  = 1000            // of one kind
	lateAfter   = 5 * time.Minute // so long a request waits for its estimation before it is worth a look
)

// The faults that Verify finds, in the order in which they are reported. The first three are verifiedRow.faults.
var faultTexts = [...]string{
	"has no estimates",
	"has no choice",
	"waits for its estimation for more than " + lateAfter.String(),
	"is enqueued and nothing brings its estimates",
}

const lostFault = len(faultTexts) - 1

// Ledger is what Verify found: how many requests are in each state, and every one that is not accounted for.
type Ledger struct {
	Requests map[materials.Status]int64 `json:"requests"`
	Faults   []string                   `json:"faults"` // never nil
}

// Underway returns those of the rounds that have a delivery to the own endpoint that is still tried.
type Underway func(ctx context.Context, rounds []round.Round) (map[round.Round]bool, error)

// Verify goes through all requests, in batches by their keys: whatever is estimated has its estimates, whatever is
// selected its choice, and whatever is enqueued is either waiting for its estimation or on its way. A request that
// changes meanwhile is no fault. Of each kind mostFaults are named.
func (s *Service) Verify(ctx context.Context, underway Underway) (Ledger, error) {
	ledger := Ledger{Faults: []string{}, Requests: map[materials.Status]int64{
		materials.Enqueued: 0, materials.Estimated: 0, materials.Selected: 0, materials.Failed: 0}}
	var faults [len(faultTexts)][]string
	late := s.deps.Now().Add(-lateAfter)
	for after := (round.Round{RequestID: math.MinInt64}); ; {
		batch, err := s.store.verified(ctx, after, late, verifyBatch)
		if err != nil {
			return Ledger{}, err
		}
		if len(batch) == 0 {
			break
		}
		if err := s.check(ctx, batch, underway, ledger.Requests, &faults); err != nil {
			return Ledger{}, err
		}
		after = batch[len(batch)-1].Round
	}
	ledger.Faults = append(ledger.Faults, slices.Concat(faults[:]...)...)
	return ledger, nil
}

// check counts a batch and notes its faults.
func (s *Service) check(ctx context.Context, batch []verifiedRow, underway Underway, counts map[materials.Status]int64,
	faults *[len(faultTexts)][]string) error {
	var sent []round.Round
	for _, row := range batch {
		counts[row.status]++
		for kind, found := range row.faults {
			if found {
				note(faults, kind, row.Round)
			}
		}
		if row.sent {
			sent = append(sent, row.Round)
		}
	}
	if len(sent) == 0 {
		return nil
	}
	alive, err := underway(ctx, sent)
	if err != nil {
		return err
	}
	for _, r := range sent {
		if alive[r] {
			continue
		}
		// The estimates may have arrived between the two looks.
		still, err := s.store.stillEnqueued(ctx, r)
		if err != nil {
			return err
		}
		if still {
			note(faults, lostFault, r)
		}
	}
	return nil
}

// note adds a fault to a list that is bounded.
func note(faults *[len(faultTexts)][]string, kind int, r round.Round) {
	if len(faults[kind]) < mostFaults {
		faults[kind] = append(faults[kind], fmt.Sprintf("request %s/%d %s", r.SupplierID, r.RequestID, faultTexts[kind]))
	}
}
