package materials

import (
	"context"
	"fmt"
	"time"

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

// CountFailed counts the failed requests, of one supplier when it is given, up to most.
func (s *Service) CountFailed(ctx context.Context, supplierID string, most int) (int64, error) {
	return s.store.countFailed(ctx, supplierID, most)
}

// ReopenFailed reopens the next failed requests, of one supplier when it is given, at most limit of them; those that
// failed after until are left as they are. It returns how many it reopened and whether there may be more.
func (s *Service) ReopenFailed(ctx context.Context, supplierID string, until time.Time, limit int) (n int64, more bool,
	err error) {
	keys, err := s.store.failedUntil(ctx, supplierID, until, limit)
	if err != nil {
		return 0, false, err
	}
	for _, key := range keys {
		err := s.Reopen(ctx, key.SupplierID, key.ID)
		switch kind := errs.KindOf(err); {
		case err == nil:
			n++
		case kind != errs.Conflict && kind != errs.NotFound: // another caller was faster, which is as good
			return n, false, err
		}
	}
	return n, len(keys) == limit, nil
}
