package receivers

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/lists"
)

// gone begins the last error of a receiver that answered 410.
const gone = "status 410"

// Condition is how a supplier's receiver does, and what waits for it, as operators see it. It is read by statements of
// their own, so what waits may have been sent since the state was read.
type Condition struct {
	State string `json:"state"` // failing, paused, active
	ReceiverState
	Waiting int64      `json:"waiting"` // deliveries, up to the limit of who asks, which means that or more
	Oldest  *time.Time `json:"oldest_waiting_at"`
}

// Condition returns the state without what waits. It has a last error only if that is of now: the last call failed, or
// the receiver was paused for what it answered.
func (r ReceiverState) Condition() Condition {
	c := Condition{State: r.name(), ReceiverState: r}
	if c.Failures == 0 && !c.Gone() {
		c.LastError = ""
	}
	return c
}

// Gone reports whether the service paused the receiver because it answered 410; its other reason is that the receiver
// failed for too long.
func (r ReceiverState) Gone() bool { return r.gone }

// shown returns the state as it is shown, from what is stored. No column says why the service paused a receiver: one
// that failed for too long is failing, or has its error from before it was moved, without a failure.
func (r ReceiverState) shown() ReceiverState {
	tooLong := r.Failing() || r.LastFailure == nil && r.LastError != ""
	r.gone = r.PausedBy == PausedByService && (strings.HasPrefix(r.LastError, gone) || !tooLong)
	if r.LastFailure == nil {
		r.LastError = ""
	}
	return r
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
	found := lists.Pairs(suppliers, func(id string) (string, *Condition) { return id, new(states[id].Condition()) })
	return found, d.Count(ctx, found, most)
}
