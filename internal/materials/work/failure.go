package work

import (
	"context"
	"errors"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

const (
	invalidTries     = 10 // after so many an estimation that fails by its own input is given up
	invalidFirstWait = 500 * time.Millisecond
	invalidMaxWait   = 30 * time.Second
)

// Why a request is failed, in words for the supplier: the cause is in the log.
const (
	failureInvalid     = "The delivery estimates of this request could not be computed."
	failureUnavailable = "The delivery estimates could not be computed: " +
		"something they need was unavailable the whole time."
)

// invalidError is an estimation's failure by its own input, not by something the service depends on.
type invalidError struct{ cause error }

func (e *invalidError) Error() string { return e.cause.Error() }
func (e *invalidError) Unwrap() error { return e.cause }

func invalid(cause error) error { return &invalidError{cause} }

// ownFault reports whether the same input fails the same way again, whatever else is repaired meanwhile.
func ownFault(err error) bool {
	_, invalid := errors.AsType[*invalidError](err)
	return invalid || errs.KindOf(err) == errs.Invalid || errs.KindOf(err) == errs.Unprocessable
}

// nextTry returns the wait after the given number of failed estimations of a round; again is false when they were the
// last.
func nextTry(err error, tries int64, schedule []time.Duration) (wait time.Duration, again bool) {
	if ownFault(err) {
		return min(invalidFirstWait<<min(tries-1, 10), invalidMaxWait), tries < invalidTries
	}
	if tries > int64(len(schedule)) {
		return 0, false
	}
	return schedule[tries-1], true
}

// failed has a round whose estimation came to nothing tried again on its schedule, or fails its request.
func (s *Service) failed(p *pending) error {
	ctx, cancel := context.WithTimeout(logctx.WithRequest(context.Background(), p.Round.SupplierID, p.Round.RequestID,
		p.TraceID), workStoreTimeout)
	defer cancel()
	now, tries := s.deps.Now(), p.tries+1
	if wait, again := nextTry(p.err, tries, s.deps.Schedule); again {
		s.deps.Log.WarnContext(ctx, "estimation failed, it is tried again", "error", p.err, "tries", tries, "wait", wait)
		return s.store.tryAgain(ctx, p.Round, tries, now.Add(wait), now)
	}
	sentence := failureUnavailable
	if ownFault(p.err) {
		sentence = failureInvalid
	}
	_, moved, err := s.deps.Ledger.Fail(ctx, p.Round, sentence, p.err.Error())
	if err == nil && moved {
		s.deps.Log.ErrorContext(ctx, "material request failed: it cannot be estimated", "error", p.err, "tries", tries)
	}
	return err
}
