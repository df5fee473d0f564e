package webhooks

import (
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

// newDelivery is a delivery that is to be stored. Its first attempt is begun with it where isBegun says so.
type newDelivery struct {
	begun
	isBegun bool
}

// startedAt returns when its begun attempt began.
func (d newDelivery) startedAt(now time.Time) *int64 {
	if !d.isBegun {
		return nil
	}
	at := now.UnixMicro()
	return &at
}

func (d newDelivery) attempts() int64 {
	if d.isBegun {
		return 1
	}
	return 0
}

// attemptedBy returns the worker of its begun attempt.
func (d newDelivery) attemptedBy() *int64 {
	if !d.isBegun {
		return nil
	}
	return &d.worker
}

// newEvent is an event that is to be stored.
type newEvent struct {
	round.Outgoing
	ids    round.Event // what its webhook-ids follow from
	stored []byte      // its body, as it is stored
}
