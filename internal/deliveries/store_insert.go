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

// first returns what a row says of the attempt that begins with it: the number of attempts, the lease, and the
// beginning, which PutBack (d) looks for. A delivery that waits has none of these.
func (d DraftDelivery) first(now time.Time) (attempts int64, worker, startedAt *int64) {
	if !d.IsBegun {
		return 0, nil, nil
	}
	at := now.UnixMicro()
	return 1, &d.Worker, &at
}

// DraftEvent is an event that is to be stored.
type DraftEvent struct {
	round.Outgoing
	Ids    round.Event // what its webhook-ids follow from
	Stored []byte      // its body, as it is stored
}
