package materials

import (
	"context"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// The choice of an estimate is final, and two calls may choose at once: the request's row is locked, the rule is
// applied to what is stored then, and the UPDATE names the state again. The other call waits for the lock and finds
// another estimate chosen, or its own, which is no error.

// Choose chooses one of the request's estimates, permanently, and returns since when it is chosen; the same
// choice again changes nothing. errs.NotFound: no such request of the supplier; errs.Conflict: it is not estimated yet,
// or another estimate is chosen; errs.Unprocessable: the estimate is not one of the request's, or is no longer valid.
func (s *Service) Choose(ctx context.Context, supplierID string, id int64, estimateID string) (
	selectedAt time.Time, err error) {
	key := requestKey{supplierID, id}
	err = s.deps.DB.InTx(ctx, "select an estimate", func(ctx context.Context) error {
		if err := s.store.lock(ctx, key); err != nil {
			return err
		}
		record, err := s.store.find(ctx, supplierID, id, anySize)
		if err != nil {
			return err
		}
		now := s.deps.Now()
		if err := record.canSelect(estimateID, now); err != nil {
			return err
		}
		if record.Status == Selected {
			selectedAt = *record.SelectedAt
			return nil
		}
		selectedAt = instant(now.UnixMicro())
		chosen, err := s.store.choose(ctx, key, estimateID, now.UnixMicro())
		if err == nil && !chosen {
			err = anotherSelected()
		}
		return err
	})
	return selectedAt, errs.Doing("select estimate", err)
}

// canSelect applies the rule of the choice: nil when the estimate may be chosen now, or is the one chosen before. The
// same choice is right also after the estimate's validity: a client whose answer was lost repeats it.
func (r Record) canSelect(estimateID string, now time.Time) error {
	switch {
	case r.Status == Selected && r.SelectedEstimateID != nil && *r.SelectedEstimateID == estimateID:
		return nil
	case r.Status == Selected:
		return anotherSelected()
	case !r.Status.CanBecome(Selected):
		return errs.New(errs.Conflict, "The request has no estimates yet.")
	}
	estimate := r.estimate(estimateID)
	switch {
	case estimate == nil:
		return unselectable("is not one of the request's estimates")
	case now.After(estimate.ValidUntil):
		return unselectable("was valid until " + estimate.ValidUntil.Format(time.RFC3339))
	default:
		return nil
	}
}

// estimate returns the request's estimate of that id, nil when it has none. Estimates of an earlier round are not among
// them, and have other ids.
func (r Record) estimate(id string) *webhook.Estimate {
	i := slices.IndexFunc(r.Estimates, func(e webhook.Estimate) bool { return e.EstimateID == id })
	if i < 0 {
		return nil
	}
	return &r.Estimates[i]
}

// anotherSelected answers a second, different choice.
func anotherSelected() error {
	return errs.New(errs.Conflict, "Another estimate of this request is selected already.")
}

// unselectable answers the choice of an estimate that cannot be chosen.
func unselectable(why string) error {
	err := errs.New(errs.Unprocessable, "The estimate cannot be selected.")
	err.Violations = []errs.Violation{errs.At("/estimate_id", why)}
	return err
}
