package materials

import (
	"context"
	"fmt"
	"time"
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

// Underway tells which of the requests have a delivery to the own endpoint that is still tried.
type Underway func(ctx context.Context, supplierID string, requestIDs []int64) (map[int64]bool, error)

// Verify goes through all requests: whatever is estimated has its estimates, whatever is selected its choice, and
// whatever is enqueued is either waiting for its estimation or on its way. What changes meanwhile is no fault.
func (s *Service) Verify(ctx context.Context, underway Underway) (Ledger, error) {
	ledger := Ledger{Faults: []string{}}
	var err error
	if ledger.Requests, err = s.store.countByStatus(ctx); err != nil {
		return Ledger{}, err
	}
	for _, check := range []struct{ condition, fault string }{
		{`status IN ('estimated', 'selected') AND (event_at IS NULL OR estimates IS NULL OR unavailable IS NULL)`, "has no estimates"},
		{`status = 'selected' AND (selected_estimate_id IS NULL OR selected_at IS NULL)`, "has no choice"},
		{fmt.Sprintf(`status = 'enqueued' AND sweep_at IS NOT NULL AND updated_at < %d`, s.deps.Now().Add(-lateAfter).UnixMicro()), "waits for its estimation for more than " + lateAfter.String()},
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

// lost are the requests whose events are stored, without their estimates, and without a delivery that would bring them.
func (s *Service) lost(ctx context.Context, underway Underway) ([]string, error) {
	var faults []string
	after := requestKey{}
	for {
		keys, err := s.store.sentAfter(ctx, after, verifyPage)
		if err != nil || len(keys) == 0 {
			return faults, err
		}
		bySupplier := map[string][]int64{}
		for _, key := range keys {
			bySupplier[key.SupplierID] = append(bySupplier[key.SupplierID], key.ID)
		}
		for supplier, ids := range bySupplier {
			alive, err := underway(ctx, supplier, ids)
			if err != nil {
				return nil, err
			}
			for _, id := range ids {
				if alive[id] {
					continue
				}
				// It may have arrived between the two looks.
				if still, err := s.store.find(ctx, supplier, id); err == nil && still.Status == Enqueued {
					faults = append(faults, fmt.Sprintf("request %s/%d is enqueued and nothing brings its estimates", supplier, id))
				}
			}
		}
		after = keys[len(keys)-1]
	}
}
