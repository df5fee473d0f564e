package materials

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	verifyPage = 1000
	lateAfter  = 5 * time.Minute // so long a request waits for its estimation before it is worth a look
)

// Ledger is what Verify found: how many requests are in each state, and every one that is not accounted for.
type Ledger struct {
	Requests map[Status]int64 `json:"requests"`
	Faults   []string         `json:"faults"` // never nil
}

// Underway returns those of the rounds that have a delivery to the own endpoint that is still tried.
type Underway func(ctx context.Context, rounds []round.Round) (map[round.Round]bool, error)

// Verify goes through all requests: whatever is estimated has its estimates, whatever is selected its choice, and
// whatever is enqueued is either waiting for its estimation or on its way. What changes meanwhile is no fault.
func (s *Service) Verify(ctx context.Context, underway Underway) (Ledger, error) {
	ledger := Ledger{Faults: []string{}}
	var err error
	if ledger.Requests, err = s.store.countByStatus(ctx); err != nil {
		return Ledger{}, err
	}
	for _, check := range []struct{ condition, fault string }{
		{`status IN ('estimated', 'selected') AND (estimates IS NULL OR unavailable IS NULL)`, "has no estimates"},
		{`status = 'selected' AND (selected_estimate_id IS NULL OR selected_at IS NULL)`, "has no choice"},
		{fmt.Sprintf(`status = 'enqueued' AND ticket IS NOT NULL AND updated_at < %d`,
			s.deps.Now().Add(-lateAfter).UnixMicro()), "waits for its estimation for more than " + lateAfter.String()},
	} {
		keys, err := s.store.matching(ctx, check.condition)
		if err != nil {
			return Ledger{}, err
		}
		for _, key := range keys {
			ledger.Faults = append(ledger.Faults, fmt.Sprintf("request %s/%d %s", key.SupplierID, key.ID, check.fault))
		}
	}
	lost, err := s.lost(ctx, underway)
	ledger.Faults = append(ledger.Faults, lost...)
	return ledger, err
}

// lost are the requests that are enqueued without anything left to queue, and without a delivery that would bring
// estimates.
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
			// They may have arrived between the two looks.
			if still, err := s.store.find(ctx, r.SupplierID, r.RequestID); err == nil && still.Status == Enqueued &&
				still.Round == r.Number {
				faults = append(faults, fmt.Sprintf("request %s/%d is enqueued and nothing brings its estimates", r.SupplierID,
					r.RequestID))
			}
		}
		last := rounds[len(rounds)-1]
		after = requestKey{last.SupplierID, last.RequestID}
	}
}
