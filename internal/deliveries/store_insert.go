package deliveries

import (
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

// DraftDelivery is a delivery that is to be stored. With IsBegun its first attempt is begun with it (b), under the
// lease that Worker names, and its attempt number is 1 from the start; without, it waits and has had no attempt (a).
type DraftDelivery struct {
	Begun
	IsBegun bool
}

// startedAt returns when its begun attempt began; nil: none is begun. PutBack (d) finds it by this moment.
func (d DraftDelivery) startedAt(now time.Time) *int64 {
	if !d.IsBegun {
		return nil
	}
	at := now.UnixMicro()
	return &at
}

// attempts returns how many attempts it has had, the begun one included.
func (d DraftDelivery) attempts() int64 {
	if d.IsBegun {
		return 1
	}
	return 0
}

// attemptedBy returns the worker of its begun attempt; nil: it waits.
func (d DraftDelivery) attemptedBy() *int64 {
	if !d.IsBegun {
		return nil
	}
	return &d.Worker
}

// DraftEvent is an event that is to be stored.
type DraftEvent struct {
	round.Outgoing
	Ids    round.Event // what its webhook-ids follow from
	Stored []byte      // its body, as it is stored
}
