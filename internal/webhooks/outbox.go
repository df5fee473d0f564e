package webhooks

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
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
	Body    []byte // the event as JSON; nil: Add encodes it
}

// newDelivery is a delivery that Add makes; begun says that its first attempt is begun with it.
type newDelivery struct {
	job
	eventKey string
	begun    bool
}

func (d newDelivery) attempts() int64 {
	if d.begun {
		return 1
	}
	return 0
}

// next is when the delivery is due, or when its begun attempt counts as interrupted.
func (d newDelivery) next(now time.Time) time.Time {
	if d.begun {
		return d.lease
	}
	return now
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
	var begun []job
	made := 0
	for chunk := range slices.Chunk(events, addBatch) {
		stored, deliveries, err := d.prepare(chunk, receivers, now, lease)
		made += len(deliveries)
		if err == nil {
			var jobs []job
			jobs, err = d.insert(ctx, stored, deliveries, now)
			begun = append(begun, jobs...)
		}
		if err != nil {
			d.release(begun)
			return nil, err
		}
	}
	return d.hold(begun, len(begun) < made), nil
}

// prepare makes the rows of the events.
func (d *Dispatcher) prepare(events []Outgoing, receivers map[string]Receiver, now, lease time.Time) ([]newEvent, []newDelivery, error) {
	stored := make([]newEvent, len(events))
	var deliveries []newDelivery
	for i, e := range events {
		body := e.Body
		if body == nil {
			var err error
			if body, err = json.Marshal(e.Event); err != nil {
				return nil, nil, fmt.Errorf("encode event %s: %w", e.Key, err)
			}
		}
		stored[i] = newEvent{e, body}
		data := e.Event.Data
		to := func(destination string) {
			deliveries = append(deliveries, newDelivery{eventKey: e.Key, job: job{
				id: newID(now), destination: destination, supplierID: data.SupplierID, requestID: data.RequestID, number: 1, series: 1,
				lease: lease, traceID: e.TraceID, body: body, target: d.target(destination, receivers),
			}})
		}
		if to(Own); receivers[data.SupplierID].usable() {
			to(data.SupplierID)
		}
	}
	return stored, deliveries, nil
}

// insert stores rows, begins the attempts that there are slots for, and gives those; the others' slots are free again.
func (d *Dispatcher) insert(ctx context.Context, events []newEvent, deliveries []newDelivery, now time.Time) ([]job, error) {
	for i := range deliveries {
		deliveries[i].begun = d.slots.takeNew(deliveries[i].destination)
	}
	inserted, err := d.store.insert(ctx, events, deliveries, now)
	var begun []job
	for _, delivery := range deliveries {
		switch {
		case !delivery.begun:
		case inserted[delivery.id]:
			begun = append(begun, delivery.job)
		default:
			d.slots.giveBack(delivery.destination)
		}
	}
	return begun, err
}

func (d *Dispatcher) release(jobs []job) {
	for _, j := range jobs {
		d.slots.giveBack(j.destination)
	}
}

// hold keeps the jobs' slots until the transaction is over. After holdFor it takes it for rolled back; when it is
// committed only then, the attempts that are begun are sent all the same. more tells of deliveries without a slot.
func (d *Dispatcher) hold(jobs []job, more bool) (send func()) {
	var decided sync.Once
	timer := time.AfterFunc(holdFor, func() { decided.Do(func() { d.release(jobs) }) })
	return func() {
		held := false
		decided.Do(func() { held = true })
		timer.Stop()
		for _, j := range jobs {
			if held || d.slots.takeAgain(j.destination) {
				go d.attempt(j)
			}
		}
		if more {
			d.Wake()
		}
	}
}

func supplierIDs(events []Outgoing) []string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.Event.Data.SupplierID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// newID begins with the moment, so that new rows stand together in the indexes, and ends with 80 random bits.
func newID(now time.Time) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(id[6:]) // never fails
	return idText(id)
}

// firstID is no larger than any id made at that moment or later, and larger than those made before.
func firstID(at time.Time) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	return idText(id)
}

func idText(id [16]byte) string {
	return "msg_" + strings.ToLower(base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(id[:]))
}
