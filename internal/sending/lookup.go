package sending

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/receivers"
)

const (
	receiverAge  = 2 * time.Second // how long a change of a receiver may go unnoticed
	receiversMax = 16_384          // entries kept before outdated ones are dropped
)

// lookup remembers receivers for a moment, so that a busy dispatcher does not ask for them at every turn. Its memory
// only says which of them are worth a slot. Add and the claim read addresses and secrets as they are now, so no call
// goes to an address that was changed before it was begun.
type lookup struct {
	source receivers.Destinations
	now    func() time.Time
	mu     sync.Mutex
	known  map[string]knownReceiver
}

type knownReceiver struct {
	receivers.Receiver
	readAt time.Time
}

// read asks for the receivers now, and remembers also those that have none.
func (r *lookup) read(ctx context.Context, supplierIDs []string) (map[string]receivers.Receiver, error) {
	if len(supplierIDs) == 0 {
		return map[string]receivers.Receiver{}, nil
	}
	at := r.now()
	found, err := r.source.Receivers(ctx, supplierIDs)
	if err != nil {
		return nil, fmt.Errorf("look up receivers: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= receiversMax { // one that comes up again is read again
		maps.DeleteFunc(r.known, func(_ string, known knownReceiver) bool { return at.Sub(known.readAt) > receiverAge })
	}
	for _, id := range supplierIDs {
		r.known[id] = knownReceiver{found[id], at}
	}
	return found, nil
}

// remembered returns what was last read of a receiver. That it cannot be called is known for receiverAge only.
func (r *lookup) remembered(supplierID string) (receivers.Receiver, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[supplierID]
	return known.Receiver, ok && (known.Signed() || r.now().Sub(known.readAt) <= receiverAge)
}
