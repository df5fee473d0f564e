package receivers

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// gone is the last error of a receiver that answered 410.
const gone = "status 410"

// Condition is how a supplier's receiver does, and what waits for it, as operators see it. It is read by statements of
// their own, so what waits may have been sent since the state was read.
type Condition struct {
	State        string     `json:"state"`     // failing, paused, active
	PausedBy     string     `json:"paused_by"` // empty: it is not paused
	Failures     int        `json:"consecutive_failures"`
	FailingSince *time.Time `json:"failing_since"` // the first of these failures
	LastSuccess  *time.Time `json:"last_success_at"`
	LastFailure  *time.Time `json:"last_failure_at"`
	LastError    string     `json:"last_error"` // of the last failure; empty unless it ails
	Waiting      int64      `json:"waiting"`    // deliveries, up to the limit of who asks, which means that or more
	Oldest       *time.Time `json:"oldest_waiting_at"`
}

// Condition returns the state without what waits.
func (r ReceiverState) Condition() Condition {
	c := Condition{State: r.name(), PausedBy: r.PausedBy, Failures: r.Failures, FailingSince: r.FailingSince,
		LastSuccess: r.LastSuccess, LastFailure: r.LastFailure, LastError: r.LastError}
	if !c.Ails() {
		c.LastError = ""
	}
	return c
}

// Gone reports whether the service paused the receiver because it answered 410; its other reason is that the receiver
// failed for too long. No column says which: a receiver that failed for too long is failing.
func (c Condition) Gone() bool {
	return c.PausedBy == PausedByService && (c.LastError == gone || c.Failures < dispatch.FailingAt)
}

// Ails reports whether the last error is of now: the last call failed, or the receiver was paused for what it answered.
func (c Condition) Ails() bool { return c.Failures > 0 || c.Gone() }

// Gone reports whether the service paused the receiver because it answered 410, as Condition.Gone does.
func (v ReceiverView) Gone() bool {
	return v.PausedBy != nil && *v.PausedBy == PausedByService &&
		(v.ConsecutiveFailures < dispatch.FailingAt || v.LastError != nil && *v.LastError == gone)
}

// Count adds what waits for the receivers of the suppliers, counted up to most for each, and since when.
func (d *Registry) Count(ctx context.Context, of map[string]*Condition, most int) error {
	waiting, err := d.deps.Deliveries.Waiting(ctx, slices.Sorted(maps.Keys(of)), most)
	for id, w := range waiting {
		of[id].Waiting = w.N
		if w.N > 0 {
			of[id].Oldest = &w.Oldest
		}
	}
	return err
}

// Conditions returns how the receivers of the suppliers do and what waits for them, counted up to most for each.
func (d *Registry) Conditions(ctx context.Context, suppliers []string, most int) (map[string]*Condition, error) {
	states, err := d.ReceiverStates(ctx, suppliers)
	if err != nil {
		return nil, err
	}
	found := make(map[string]*Condition, len(suppliers))
	for _, id := range suppliers {
		c := states[id].Condition()
		found[id] = &c
	}
	return found, d.Count(ctx, found, most)
}
