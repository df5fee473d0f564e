package deliveries

import (
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

// DraftDelivery is a delivery that is to be stored. Its first attempt is begun with it where isBegun says so.
type DraftDelivery struct {
	Begun
	IsBegun bool
}

// startedAt returns when its begun attempt began.
func (d DraftDelivery) startedAt(now time.Time) *int64 {
	if !d.IsBegun {
		return nil
	}
	at := now.UnixMicro()
	return &at
}

func (d DraftDelivery) attempts() int64 {
	if d.IsBegun {
		return 1
	}
	return 0
}

// attemptedBy returns the worker of its begun attempt.
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
