package materials

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	verifyPage = 5000
	mostFaults = 1000            // of one kind
	lateAfter  = 5 * time.Minute // so long a request waits for its estimation before it is worth a look
)

// Ledger is what Verify found: how many requests are in each state, and every one that is not accounted for.
type Ledger struct {
	Requests map[Status]int64 `json:"requests"`
	Faults   []string         `json:"faults"` // never nil
}

// Underway returns those of the rounds that have a delivery to the own endpoint that is still tried.
type Underway func(ctx context.Context, rounds []round.Round) (map[round.Round]bool, error)

// Verify goes through all requests, in batches: whatever is estimated has its estimates, whatever is selected its choice, and
// whatever is enqueued is either waiting for its estimation or on its way. What changes meanwhile is no fault. Of each kind
// mostFaults are named. seen is told how many requests were looked at so far.
func (s *Service) Verify(ctx context.Context, underway Underway, seen func(int64)) (Ledger, error) {
	ledger := Ledger{Requests: map[Status]int64{Enqueued: 0, Estimated: 0, Selected: 0, Failed: 0}, Faults: []string{}}
	checks := []check{
		{`status IN ('estimated', 'selected') AND (estimates IS NULL OR unavailable IS NULL)`, "has no estimates"},
		{`status = 'selected' AND (selected_estimate_id IS NULL OR selected_at IS NULL)`, "has no choice"},
		{fmt.Sprintf(`status = 'enqueued' AND ticket IS NOT NULL AND updated_at < %d`, s.deps.Now().Add(-lateAfter).UnixMicro()), "waits for its estimation for more than " + lateAfter.String()},
	}
	faults, total := make([][]string, len(checks)), int64(0)
	for after := (requestKey{ID: math.MinInt64}); ; {
		last, n, err := s.store.countBehind(ctx, after, ledger.Requests)
		if err != nil {
			return Ledger{}, err
		}
		if n == 0 {
			break
		}
		for i, c := range checks {
			keys, err := s.store.matching(ctx, after, last, c.condition)
			if err != nil {
				return Ledger{}, err
			}
			for _, key := range keys[:min(len(keys), mostFaults-len(faults[i]))] {
				faults[i] = append(faults[i], fmt.Sprintf("request %s/%d %s", key.SupplierID, key.ID, c.fault))
			}
		}
		after, total = last, total+n
		seen(total)
	}
	for _, found := range faults {
		ledger.Faults = append(ledger.Faults, found...)
	}
	lost, err := s.lost(ctx, underway)
	ledger.Faults = append(ledger.Faults, lost...)
	return ledger, err
}

// check is a condition that holds of no request, and what to say of one of which it does.
type check struct{ condition, fault string }

// lost are the requests that are enqueued without anything left to queue, and without a delivery that would bring estimates.
func (s *Service) lost(ctx context.Context, underway Underway) ([]string, error) {
	var faults []string
	after := requestKey{}
	for {
		rounds, err := s.store.sentAfter(ctx, after, verifyPage)
		if err != nil || len(rounds) == 0 {
			return faults, err
		}
		alive, err := underway(ctx, rounds)
		if err != nil {
			return nil, err
		}
		for _, r := range rounds {
			if alive[r] {
				continue
			}
			if len(faults) == mostFaults {
				return faults, nil
			}
			// They may have arrived between the two looks.
			if still, err := s.store.find(ctx, r.SupplierID, r.RequestID); err == nil && still.Status == Enqueued && still.Round == r.Number {
				faults = append(faults, fmt.Sprintf("request %s/%d is enqueued and nothing brings its estimates", r.SupplierID, r.RequestID))
			}
		}
		last := rounds[len(rounds)-1]
		after = requestKey{last.SupplierID, last.RequestID}
	}
}
