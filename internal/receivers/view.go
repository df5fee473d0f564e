package receivers

import (
	"github.com/supplyhub/supplyhub/internal/deliveries"
)

import "context"

// name returns the state of a receiver that has an address.
func (r ReceiverState) name() string {
	switch {
	case r.PausedBy != "":
		return "paused"
	case r.Failing():
		return "failing"
	default:
		return "active"
	}
}

// show fills in what does not depend on the address.
func (r ReceiverState) show(view *ReceiverView) {
	view.ConsecutiveFailures = int64(r.Failures)
	view.LastSuccessAt, view.LastFailureAt = r.LastSuccess, r.LastFailure
	if r.PausedBy != "" {
		view.PausedBy = &r.PausedBy
	}
	if r.LastError != "" {
		text := deliveries.PublicError(r.LastError)
		view.LastError = &text
	}
}

// Pause keeps everything for the supplier's receiver until it is resumed. Errors: errs.Conflict without a receiver.
func (s *SelfService) Pause(ctx context.Context, supplierID string) error {
	return s.change(ctx, supplierID, PausedBySupplier, s.deps.Receivers.Pause)
}

// PauseByOperator is Pause that the supplier cannot end.
func (s *SelfService) PauseByOperator(ctx context.Context, supplierID string) error {
	return s.change(ctx, supplierID, PausedByOperator, s.deps.Receivers.Pause)
}

// Resume sends what waits, in its order. Errors: errs.Conflict without a receiver, or when the operator paused it.
func (s *SelfService) Resume(ctx context.Context, supplierID string) error {
	return s.change(ctx, supplierID, PausedBySupplier, s.deps.Receivers.Resume)
}

// ResumeByOperator ends every pause. Errors: errs.Conflict without a receiver.
func (s *SelfService) ResumeByOperator(ctx context.Context, supplierID string) error {
	return s.change(ctx, supplierID, PausedByOperator, s.deps.Receivers.Resume)
}

func (s *SelfService) change(ctx context.Context, supplierID, by string,
	change func(ctx context.Context, supplierID, by string) error) error {
	if _, err := s.mustHaveReceiver(ctx, supplierID); err != nil {
		return err
	}
	return change(ctx, supplierID, by)
}
