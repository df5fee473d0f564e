package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	addBatch = 128 // events a statement
	roomWait = 500 * time.Millisecond
)

// Outgoing is one event to be delivered. The same round twice is one event.
type Outgoing struct {
	Round   round.Round
	TraceID string // X-Request-Id of the call that caused it
	Event   webhook.Event
	Body    []byte // the event as JSON; nil: Add encodes it
}

// newDelivery is a delivery that Add makes; unless it was granted nothing, its first attempt is begun with it.
type newDelivery struct {
	job
	granted grant
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

// attemptedBy is the worker of its begun attempt.
func (d newDelivery) attemptedBy() *int64 {
	if !d.begun() {
		return nil
	}
	return &d.worker
}

// newEvent is an event that Add stores, with its deliveries.
type newEvent struct {
	Outgoing
	body       []byte
	deliveries []newDelivery // the first goes to the own endpoint
}

// Add stores the events with one delivery to the own endpoint each and one to the supplier's receiver when it has one, in the
// transaction of ctx, and returns the rounds whose events were stored before: these stay as they are. What there are slots for
// is begun by Add itself, which saves a write, and sent when the transaction is committed. The rest is sent by whichever
// worker's Run comes first.
func (d *Dispatcher) Add(ctx context.Context, events []Outgoing) (before []round.Round, err error) {
	receivers, err := d.receivers.read(ctx, supplierIDs(events))
	if err != nil {
		return nil, err
	}
	now, worker := d.deps.Now(), d.lease.worker()
	for chunk := range slices.Chunk(events, addBatch) {
		prepared, err := d.prepare(chunk, receivers, worker)
		if err != nil {
			return nil, err
		}
		fresh, err := d.store.insertEvents(ctx, prepared, now)
		if err != nil {
			return nil, err
		}
		var deliveries []newDelivery
		for _, e := range prepared {
			if !fresh[e.Round] {
				before = append(before, e.Round)
				continue
			}
			deliveries = append(deliveries, e.deliveries...)
		}
		if err := d.insert(ctx, deliveries, now); err != nil {
			return nil, err
		}
	}
	return before, nil
}

// prepare makes the rows of the events.
func (d *Dispatcher) prepare(events []Outgoing, receivers map[string]Receiver, worker int64) ([]newEvent, error) {
	prepared := make([]newEvent, len(events))
	for i, e := range events {
		body := e.Body
		if body == nil {
			var err error
			if body, err = json.Marshal(e.Event); err != nil {
				return nil, fmt.Errorf("encode event of %s: %w", e.Round, err)
			}
		}
		prepared[i] = newEvent{Outgoing: e, body: body}
		add := func(kind round.Kind, destination string) {
			prepared[i].deliveries = append(prepared[i].deliveries, newDelivery{job: job{
				id: e.Round.WebhookID(kind), destination: destination, round: e.Round, number: 1, series: 1,
				worker: worker, traceID: e.TraceID, body: body, target: d.target(destination, receivers),
			}})
		}
		add(round.Own, Own)
		if receivers[e.Round.SupplierID].usable() {
			add(round.Receiver, e.Round.SupplierID)
		}
	}
	return prepared, nil
}

// insert stores deliveries and begins the attempts that it is granted slots or places in line for; these are sent, or given
// back, when the transaction in ctx ends.
func (d *Dispatcher) insert(ctx context.Context, deliveries []newDelivery, now time.Time) error {
	if len(deliveries) == 0 {
		return nil
	}
	var begun []newDelivery
	for i := range deliveries {
		if deliveries[i].worker != 0 {
			deliveries[i].granted = d.slots.takeNew(deliveries[i].destination)
		}
		if deliveries[i].begun() {
			begun = append(begun, deliveries[i])
		}
	}
	more := len(begun) < len(deliveries)
	d.deps.DB.AfterTx(ctx, func(end database.End) { d.transactionEnded(end, begun, more) })
	return d.store.insertDeliveries(ctx, deliveries, now)
}

// transactionEnded sends what is begun and committed. Of what may be committed it gives the attempts back; more reports
// whether there are deliveries that Run has to find.
func (d *Dispatcher) transactionEnded(end database.End, begun []newDelivery, more bool) {
	if end != database.Committed {
		d.release(begun)
		if end == database.Unknown {
			go d.putBack(jobsOf(begun))
		}
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

func (d *Dispatcher) release(deliveries []newDelivery) {
	for _, delivery := range deliveries {
		if delivery.granted == slot {
			d.slots.giveBack(delivery.destination)
		} else {
			d.slots.leave(delivery.destination)
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

// putBack gives begun first attempts that are not sent back to the database, due at once, however long that is unavailable.
// Each names the lease under which it was begun: what another worker has taken over stays as it is.
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

func supplierIDs(events []Outgoing) []string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.Round.SupplierID
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
