package materials

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// reestimate asks for fresh estimates: the request is enqueued again for its next round, whose event has a key and
// estimate ids of its own. A request that is enqueued already stays as it is: its fresh estimates are on the way.
// errs.NotFound: no such request of the supplier; errs.Conflict: an estimate is selected.
func (s *Service) reestimate(ctx context.Context, key requestKey) error {
	now := s.deps.Now()
	moved, err := s.store.nextRound(ctx, key, now, now.Add(firstSweep))
	if err != nil {
		return fmt.Errorf("re-estimate: %w", err)
	}
	if moved {
		s.publish(key)
		return nil
	}
	record, err := s.store.find(ctx, key.SupplierID, key.ID)
	switch {
	case err != nil:
		return fmt.Errorf("re-estimate: %w", err)
	case record.Status == Selected:
		return errs.New(errs.Conflict, "An estimate of this request is selected already.")
	default:
		return nil
	}
}
