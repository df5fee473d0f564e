package webhooks

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	addBatch = 128         // events a statement
	holdFor  = time.Second // how long Add keeps slots for a transaction that may have been rolled back
)

// Outgoing is one event to be delivered. The same Key twice is one event.
type Outgoing struct {
	Key     string
	TraceID string // X-Request-Id of the call that caused it
	Event   webhook.Event
}

// newDelivery is a delivery that Add makes; begun says that its first attempt is begun with it.
type newDelivery struct {
	job
	eventKey string
	begun    bool
}

// newEvent is an event that Add stores.
type newEvent struct {
	Outgoing
	body []byte
}

// Add stores the events with one delivery to the own endpoint each and one to the supplier's receiver when it has one,
// in the transaction of ctx; what is stored already stays as it is. send, to be called after the commit, sends at once
// what there are slots for: their first attempt is begun by Add itself, which saves a write. The rest, and all of it
// when send is never called, is sent by whichever worker's Run comes first.
func (d *Dispatcher) Add(ctx context.Context, events []Outgoing) (send func(), err error) {
	receivers, err := d.receivers.read(ctx, supplierIDs(events))
	if err != nil {
		return nil, err
	}
	now := d.deps.Now()
	lease := now.Add(d.deps.Timeout + leaseMargin)
	stored, deliveries, err := d.prepare(events, receivers, lease)
	if err != nil {
		return nil, err
	}
	d.takeSlots(deliveries)
	var inserted map[string]bool
	for events := range slices.Chunk(stored, addBatch) {
		var batch []newDelivery
		batch, deliveries = cut(deliveries, events)
		_ = batch
	}
	_ = inserted
	_ = now
	return d.hold(nil), nil
}

func supplierIDs(events []Outgoing) []string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.Event.Data.SupplierID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

func newID() string { return "msg_" + strings.ToLower(rand.Text()) }
