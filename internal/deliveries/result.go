package deliveries

import (
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// errorLimit is the longest error text that is kept, in bytes.
const errorLimit = 500

// Result is the end of an attempt as it is written down (e). From the end of the call to that transaction it is in the
// memory of its worker alone: a crash in between is f, and the receiver gets the call once more.
type Result struct {
	Begun
	Began    time.Time
	Took     time.Duration
	Address  int64  // digest of the receiver's address; 0: the own endpoint's
	URL      string // that was called, as it may be shown; empty: the own endpoint's
	status   *int64
	Err      string // why the call was not taken; empty: it was
	response []byte
	Outcome  Outcome

	Ended    time.Time // by the database's clock
	Measured time.Time // the same moment by this process's
}

// Rebase moves the next attempt to the database's time now. Results may wait for a failover to a server whose clock is
// another one: how long the wait was is measured by this process's clock, which no failover changes.
func (r *Result) Rebase(now time.Time) {
	if r.Outcome.Status == Pending && !r.Measured.IsZero() {
		r.Outcome.Next = now.Add(r.Outcome.Next.Sub(r.Ended) - time.Since(r.Measured))
		r.Ended, r.Measured = now, time.Now()
	}
}

// NewResult makes the end of an attempt from its answer and what that means.
func NewResult(j Begun, a Answer, outcome Outcome, began time.Time, took time.Duration) Result {
	r := Result{Begun: j, Began: began, Took: took, response: a.Body, Outcome: outcome}
	if a.Status != 0 {
		r.status = new(int64(a.Status))
	}
	switch {
	case a.Err != nil:
		r.Err = database.Text(a.Err.Error(), errorLimit)
	case j.Destination != OwnEndpoint:
		r.Err = database.Text(a.Cause(), errorLimit)
	case a.Status/100 != 2:
		r.Err = notTaken
	}
	return r
}

// Reason returns in a few words why the attempt did not deliver.
func (r Result) Reason() string {
	switch {
	case r.status != nil && r.Err != "":
		return fmt.Sprintf("status %d: %s", *r.status, r.Err)
	case r.status != nil:
		return fmt.Sprintf("status %d", *r.status)
	case r.Err != "":
		return r.Err
	default:
		return interrupted
	}
}

// Lost reports whether the delivery has ended without being delivered. The transaction of e fails the request of one to
// the own endpoint.
func (r Result) Lost() bool { return r.Outcome.Status == Dead || r.Outcome.Status == Failed }

// Gone reports whether the receiver wants nothing more: it answered 410, which alone is final there. The transaction of
// e pauses it.
func (r Result) Gone() bool { return r.Destination != OwnEndpoint && r.Outcome.Status == Failed }

// Failure returns why the answer does not count as delivered; nil if it does.
func (a Answer) Failure() error {
	if a.Err == nil && a.Status/100 != 2 {
		return fmt.Errorf("status %d", a.Status)
	}
	return a.Err
}
