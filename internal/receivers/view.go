package receivers

import (
	"context"

	"github.com/supplyhub/supplyhub/internal/deliveries"
)

// name returns the state of a receiver that has an address. A pause hides that it fails: while it lasts nothing is
// tried.
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

// seen returns the state that a page calls so as people see it: a receiver is active only when the last call to it
// succeeded.
func (r ReceiverState) seen(state string) string {
	switch {
	case state == "active" && r.Failures > 0:
		return "last call failed"
	case state == "active" && r.LastSuccess == nil:
		return "nothing sent yet"
	default:
		return state
	}
}

// Seen returns the state as the supplier's pages show it.
func (v ReceiverView) Seen() string { return v.known.seen(v.State) }

// Gone reports whether the service paused the receiver because it answered 410.
func (v ReceiverView) Gone() bool { return v.known.Gone() }

// Seen returns the state as the operator's pages show it.
func (c Condition) Seen() string { return c.seen(c.State) }

// show fills in what does not depend on the address. The last error is shown without the operator's addresses.
func (r ReceiverState) show(view *ReceiverView) {
	view.known, view.ConsecutiveFailures = r, int64(r.Failures)
	view.LastSuccessAt, view.LastFailureAt = r.LastSuccess, r.LastFailure
	if r.PausedBy != "" {
		view.PausedBy = &r.PausedBy
	}
	if r.LastError != "" {
		view.LastError = new(deliveries.PublicError(r.LastError))
	}
}

// The supplier's and the operator's buttons. Both end in Registry.Pause and Resume; who asks decides what may end a
// pause.

// Pause keeps everything for the supplier's receiver until it is resumed. Errors: errs.Conflict without a receiver.
func (s *SelfService) Pause(ctx context.Context, supplierID string) error {
	return s.deps.Receivers.Pause(ctx, supplierID, PausedBySupplier)
}

// PauseByOperator is Pause that the supplier cannot end.
func (s *SelfService) PauseByOperator(ctx context.Context, supplierID string) error {
	return s.deps.Receivers.Pause(ctx, supplierID, PausedByOperator)
}

// Resume sends what waits, in its order. It also ends the service's own pause: a supplier that has repaired its
// receiver need not ask the operator. Errors: errs.Conflict without a receiver, or when the operator paused it.
func (s *SelfService) Resume(ctx context.Context, supplierID string) error {
	return s.deps.Receivers.Resume(ctx, supplierID, PausedBySupplier)
}

// ResumeByOperator ends every pause. Errors: errs.Conflict without a receiver.
func (s *SelfService) ResumeByOperator(ctx context.Context, supplierID string) error {
	return s.deps.Receivers.Resume(ctx, supplierID, PausedByOperator)
}
