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
	next, moved, err := s.store.nextRound(ctx, key, s.deps.Now(), Estimated, Failed)
	if err != nil {
		return fmt.Errorf("re-estimate: %w", err)
	}
	if moved {
		s.deps.Publisher.Publish(next)
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

// Reopen enqueues a failed request again, for its next round. errs.NotFound: no such request of the supplier;
// errs.Conflict: it is not failed.
func (s *Service) Reopen(ctx context.Context, supplierID string, requestID int64) error {
	key := requestKey{supplierID, requestID}
	next, moved, err := s.store.nextRound(ctx, key, s.deps.Now(), Failed)
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	if moved {
		s.deps.Publisher.Publish(next)
		return nil
	}
	record, err := s.store.find(ctx, supplierID, requestID)
	if err != nil {
		return fmt.Errorf("reopen: %w", err)
	}
	return errs.New(errs.Conflict, fmt.Sprintf("The request is %s, not failed.", record.Status))
}
