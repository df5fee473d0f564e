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
	addBatch = 128 // events a statement
	roomWait = 500 * time.Millisecond
	holdFor  = time.Second // how long Add keeps slots for a transaction that may have been rolled back
)

// Outgoing is one event to be delivered. The same Key twice is one event.
type Outgoing struct {
	Key     string
	TraceID string // X-Request-Id of the call that caused it
	Event   webhook.Event
	Body    []byte // the event as JSON; nil: Add encodes it
}

// newDelivery is a delivery that Add makes; unless it was granted nothing, its first attempt is begun with it.
type newDelivery struct {
	job
	eventKey string
	granted  grant
}

func (d newDelivery) begun() bool { return d.granted != nothing }

// startedAt is when its begun attempt began.
func (d newDelivery) startedAt(now time.Time) *int64 {
	if !d.begun() {
		return nil
	}
	at := now.UnixMicro()
	return &at
}

func (d newDelivery) attempts() int64 {
	if d.begun() {
		return 1
	}
	return 0
}

// next is when the delivery is due, or when its begun attempt counts as interrupted.
func (d newDelivery) next(now time.Time) time.Time {
	if d.begun() {
		return d.lease
	}
	return now
}

// newEvent is an event that Add stores, with its deliveries.
type newEvent struct {
	Outgoing
	body       []byte
	deliveries []newDelivery // the first goes to the own endpoint
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
	var begun []newDelivery
	made := 0
	for chunk := range slices.Chunk(events, addBatch) {
		stored, err := d.prepare(chunk, receivers, now, lease)
		if err == nil {
			var deliveries []newDelivery
			deliveries, err = d.insert(ctx, stored, now)
			made += len(deliveries)
			begun = append(begun, slices.DeleteFunc(deliveries, func(d newDelivery) bool { return !d.begun() })...)
		}
		if err != nil {
			d.release(begun)
			return nil, err
		}
	}
	return d.hold(begun, len(begun) < made), nil
}

// prepare makes the rows of the events.
func (d *Dispatcher) prepare(events []Outgoing, receivers map[string]Receiver, now, lease time.Time) ([]newEvent, error) {
	stored := make([]newEvent, len(events))
	for i, e := range events {
		body := e.Body
		if body == nil {
			var err error
			if body, err = json.Marshal(e.Event); err != nil {
				return nil, fmt.Errorf("encode event %s: %w", e.Key, err)
			}
		}
		data := e.Event.Data
		destinations := []string{Own}
		if receivers[data.SupplierID].usable() {
			destinations = append(destinations, data.SupplierID)
		}
		stored[i] = newEvent{Outgoing: e, body: body}
		for n, id := range newIDs(now, len(destinations)) {
			stored[i].deliveries = append(stored[i].deliveries, newDelivery{eventKey: e.Key, job: job{
				id: id, destination: destinations[n], supplierID: data.SupplierID, requestID: data.RequestID, number: 1, series: 1,
				lease: lease, traceID: e.TraceID, body: body, target: d.target(destinations[n], receivers),
			}})
		}
	}
	return stored, nil
}

// insert stores the events that are new, with their deliveries, and begins the attempts that it is granted slots or places
// in line for. With an error what was granted to those that it gives is still taken.
func (d *Dispatcher) insert(ctx context.Context, events []newEvent, now time.Time) ([]newDelivery, error) {
	fresh, err := d.store.insertEvents(ctx, events, now)
	if err != nil {
		return nil, err
	}
	deliveries := make([]newDelivery, 0, 2*len(events))
	for _, e := range events {
		if !fresh[e.Key] {
			continue
		}
		for _, delivery := range e.deliveries {
			delivery.granted = d.slots.takeNew(delivery.destination)
			deliveries = append(deliveries, delivery)
		}
	}
	if len(deliveries) == 0 {
		return nil, nil
	}
	return deliveries, d.store.insertDeliveries(ctx, deliveries, now)
}

func (d *Dispatcher) release(deliveries []newDelivery) {
	for _, delivery := range deliveries {
		if delivery.granted == slot {
			d.slots.giveBack(delivery.destination)
		} else {
			d.slots.leave(delivery.destination)
		}
	}
}

// hold keeps what was granted until the transaction is over. After holdFor it takes it for rolled back; should it be
// committed all the same, its attempts are given back. more tells of deliveries without a grant.
func (d *Dispatcher) hold(begun []newDelivery, more bool) (send func()) {
	var decided sync.Once
	timer := time.AfterFunc(holdFor, func() {
		given := false
		decided.Do(func() { given = true })
		if given {
			d.release(begun)
			d.putBack(jobsOf(begun))
		}
	})
	return func() {
		held := false
		decided.Do(func() { held = true })
		timer.Stop()
		if !held {
			go d.putBack(jobsOf(begun))
			return
		}
		for _, delivery := range begun {
			if delivery.granted == slot {
				d.callers.begin(delivery.job)
			} else {
				d.slots.enter(delivery.job)
			}
		}
		if more {
			d.Wake()
		}
	}
}

func jobsOf(deliveries []newDelivery) []job {
	jobs := make([]job, len(deliveries))
	for i, d := range deliveries {
		jobs[i] = d.job
	}
	return jobs
}

// putBack gives begun first attempts that are not sent back to the database, due at once, however long that is away.
func (d *Dispatcher) putBack(jobs []job) {
	for pause := recordAgain; len(jobs) > 0; pause = min(2*pause, recordAgainMax) {
		ctx, cancel := context.WithTimeout(d.writing, storeTimeout)
		err := d.store.putBack(ctx, jobs, d.deps.Now())
		cancel()
		if err == nil {
			break
		}
		d.deps.Log.WarnContext(ctx, "give webhook attempts back failed", "error", err)
		if d.writing.Err() != nil {
			return // they count as interrupted
		}
		d.sleep(d.writing, pause, nil)
	}
	d.Wake()
}

// Reserve waits until some of the wanted events can be sent when they are added, for roomWait at most, and tells how many:
// what is added without a slot or a place in line costs two more writes, and waits better where it comes from. done is to
// be called after the send of Add, or instead of it.
func (d *Dispatcher) Reserve(want int) (n int, done func()) {
	const each = 2 // deliveries an event
	timer := time.NewTimer(roomWait)
	defer timer.Stop()
	for {
		granted, room := d.slots.reserve(each * want)
		if granted > 0 {
			return granted / each, func() { d.slots.release(granted) }
		}
		select {
		case <-room:
		case <-timer.C:
			d.slots.reserveAnyway(each * want)
			return want, func() { d.slots.release(each * want) }
		}
	}
}

// Stored tells under which of the keys events are stored. It joins the transaction of ctx.
func (d *Dispatcher) Stored(ctx context.Context, keys []string) (map[string]bool, error) {
	return d.store.eventKeys(ctx, keys)
}

func supplierIDs(events []Outgoing) []string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.Event.Data.SupplierID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// newIDs are the ids of an event's deliveries. They begin with the moment, so that new rows stand together in the
// indexes, go on with 72 random bits and end with the delivery's number, so that one leads to the others.
func newIDs(now time.Time, n int) []string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(now.UnixMilli())<<16)
	_, _ = rand.Read(id[6:15]) // never fails
	ids := make([]string, n)
	for i := range ids {
		id[15] = byte(i)
		ids[i] = idText(id)
	}
	return ids
}

// idsFrom are all ids that the deliveries of an event may have, given its first delivery's; nil for any other text.
func idsFrom(first string) []string {
	text, found := strings.CutPrefix(first, idPrefix)
	raw, err := base32.HexEncoding.WithPadding(base32.NoPadding).DecodeString(strings.ToUpper(text))
	if !found || err != nil || len(raw) != 16 {
		return nil
	}
	id := [16]byte(raw)
	id[15]++
	return []string{first, idText(id)}
}

// firstID is no larger than any id made at that moment or later, and larger than those made before.
func firstID(at time.Time) string {
	var id [16]byte
	binary.BigEndian.PutUint64(id[:8], uint64(at.UnixMilli())<<16)
	return idText(id)
}

const idPrefix = "msg_"

func idText(id [16]byte) string {
	const characters = 26 // behind them is padding
	return idPrefix + strings.ToLower(base32.HexEncoding.EncodeToString(id[:])[:characters])
}
