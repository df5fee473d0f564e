package webhooks

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
)

const (
	receiverAge  = 2 * time.Second // how long a change of a receiver may go unnoticed
	receiversMax = 16_384          // entries kept before outdated ones are dropped
)

// Receiver is where a supplier takes webhooks.
type Receiver = caller.Receiver

// Destinations returns the suppliers' receivers; a supplier that is unknown or has none is absent or without a URL.
type Destinations interface {
	Receivers(ctx context.Context, supplierIDs []string) (map[string]Receiver, error)
}

// callURL returns the address of a request's call below a receiver's URL.
func callURL(base string, requestID int64) string {
	return strings.TrimRight(base, "/") + "/api/material-requests/" + strconv.FormatInt(requestID, 10) +
		"/delivery-estimates"
}

// receivers remembers receivers for a moment, so that a busy dispatcher does not ask for them at every turn.
type receivers struct {
	source Destinations
	now    func() time.Time
	mu     sync.Mutex
	known  map[string]knownReceiver
}

type knownReceiver struct {
	Receiver
	readAt time.Time
}

func newReceivers(source Destinations, now func() time.Time) *receivers {
	return &receivers{source: source, now: now, known: map[string]knownReceiver{}}
}

// read asks for the receivers now.
func (r *receivers) read(ctx context.Context, supplierIDs []string) (map[string]Receiver, error) {
	if len(supplierIDs) == 0 {
		return map[string]Receiver{}, nil
	}
	at := r.now()
	found, err := r.source.Receivers(ctx, supplierIDs)
	if err != nil {
		return nil, fmt.Errorf("look up receivers: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) >= receiversMax {
		r.forget(at)
	}
	for _, id := range supplierIDs {
		r.known[id] = knownReceiver{found[id], at}
	}
	return found, nil
}

func (r *receivers) forget(now time.Time) {
	for id, known := range r.known {
		if now.Sub(known.readAt) > receiverAge {
			delete(r.known, id)
		}
	}
}

// remembered returns what was last read of a receiver. That it cannot be called is known for receiverAge only.
func (r *receivers) remembered(supplierID string) (Receiver, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, ok := r.known[supplierID]
	return known.Receiver, ok && (known.Usable() || r.now().Sub(known.readAt) <= receiverAge)
}
