package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	addBatch = 128 // events a statement
	roomWait = 500 * time.Millisecond
)

// Outgoing is one event to be delivered.
type Outgoing = round.Outgoing

// newDelivery is a delivery that Add makes. Its first attempt is begun with it when there is a permit.
type newDelivery struct {
	job
	permit dispatch.Permit[job]
	begun  bool
}

// startedAt returns when its begun attempt began.
func (d newDelivery) startedAt(now time.Time) *int64 {
	if !d.begun {
		return nil
	}
	at := now.UnixMicro()
	return &at
}

func (d newDelivery) attempts() int64 {
	if d.begun {
		return 1
	}
	return 0
}

// attemptedBy returns the worker of its begun attempt.
func (d newDelivery) attemptedBy() *int64 {
	if !d.begun {
		return nil
	}
	return &d.worker
}

// newEvent is an event that Add stores, with its deliveries.
type newEvent struct {
	Outgoing
	ids        round.Event   // what its webhook-ids follow from
	stored     []byte        // its body, as it is stored
	deliveries []newDelivery // the first goes to the own endpoint
}

// Add stores the events with one delivery to the own endpoint each and one to the supplier's receiver when it has one,
// in the transaction of ctx, and returns the rounds whose events were stored before: these stay as they are. First
// attempts that this worker owns and has room for are begun with their deliveries, which saves a write, and sent after
// the COMMIT. All others are due, and their owners are woken after the COMMIT.
func (d *Dispatcher) Add(ctx context.Context, events []Outgoing) (before []round.Round, err error) {
	receivers, err := d.receivers.read(ctx, supplierIDs(events))
	if err != nil {
		return nil, err
	}
	now, worker, due := d.deps.Now(), d.lease.worker(), map[string]time.Time{}
	suppliers := slices.Collect(maps.Keys(receivers))
	for chunk := range slices.Chunk(events, addBatch) {
		prepared, err := d.prepare(chunk, receivers, worker, now)
		if err != nil {
			return nil, err
		}
		fresh, known, err := d.store.insertEvents(ctx, prepared, suppliers, now)
		if err != nil {
			return nil, err
		}
		deliveries := make([]newDelivery, 0, 2*len(prepared))
		for _, e := range prepared {
			if !fresh[e.Round] {
				before = append(before, e.Round)
				continue
			}
			deliveries = append(deliveries, e.deliveries...)
		}
		if err := d.insert(ctx, deliveries, known, due, now); err != nil {
			return nil, err
		}
	}
	return before, d.store.markDue(ctx, due, now)
}

// prepare makes the rows of the events.
func (d *Dispatcher) prepare(events []Outgoing, receivers map[string]Receiver, worker int64, now time.Time) (
	[]newEvent, error) {
	prepared := make([]newEvent, len(events))
	for i, e := range events {
		body := e.Body
		if body == nil {
			var err error
			if body, err = json.Marshal(e.Event); err != nil {
				return nil, fmt.Errorf("encode event of %s: %w", e.Round, err)
			}
		}
		prepared[i] = newEvent{Outgoing: e, ids: round.NewEvent(e.Round.UID, now), stored: pack.Pack(body),
			deliveries: make([]newDelivery, 0, 2)}
		add := func(kind round.Kind, destination string) {
			prepared[i].deliveries = append(prepared[i].deliveries, newDelivery{job: job{
				id: prepared[i].ids.WebhookID(kind), destination: destination, round: e.Round, number: 1, series: 1,
				worker: worker, begun: now, traceID: e.TraceID, traceParent: e.TraceParent, body: body,
				target: d.target(destination, receivers),
			}})
		}
		add(round.OwnEndpoint, ownEndpoint)
		if receivers[e.Round.SupplierID].Usable() {
			add(round.Receiver, e.Round.SupplierID)
		}
	}
	return prepared, nil
}

// insert stores deliveries and begins the attempts that may be; these are sent when the transaction in ctx is committed.
// This worker holds them from before the COMMIT on, so that reconcile never takes them for forgotten. due takes in to
// whom others have to wait.
func (d *Dispatcher) insert(ctx context.Context, deliveries []newDelivery, known map[string]standing,
	due map[string]time.Time, now time.Time) error {
	if len(deliveries) == 0 {
		return nil
	}
	began, waiting := time.Now(), map[string]time.Time{}
	for i := range deliveries {
		delivery := &deliveries[i]
		if delivery.worker != 0 {
			d.begin(delivery, known[delivery.destination])
		}
		if delivery.begun {
			d.hold(delivery.id)
		} else {
			due[delivery.destination], waiting[delivery.destination] = now, now
		}
	}
	d.deps.DB.AfterTx(ctx, func(end database.End) { d.transactionEnded(end, deliveries, waiting, began) })
	return d.store.insertDeliveries(ctx, deliveries, now)
}

// begin begins the first attempt of a delivery with it when this worker serves the destination and has room. What goes
// to a paused or failing receiver waits.
func (d *Dispatcher) begin(delivery *newDelivery, known standing) {
	to := delivery.destination
	if to != ownEndpoint && (known.paused || known.failures >= dispatch.FailingAt || !d.ownership.owns(to)) {
		return
	}
	destination := d.destination(delivery.job)
	destination.Failures = known.failures
	delivery.permit, delivery.begun = d.scheduler.Admit(destination)
}

// transactionEnded sends what is begun and committed, and wakes the owners of what waits. When the COMMIT got no
// answer nothing is sent and nothing undone: reconcile finds what is stored. What a pause overtook is given back.
func (d *Dispatcher) transactionEnded(end database.End, deliveries []newDelivery, waiting map[string]time.Time,
	began time.Time) {
	var back []job
	for _, delivery := range deliveries {
		switch {
		case !delivery.begun:
		case end != database.Committed:
			delivery.permit.Cancel()
			d.release(delivery.id)
		case delivery.destination != ownEndpoint && d.wakeUps.pausedSince(delivery.destination, began):
			delivery.permit.Cancel()
			back = append(back, delivery.job)
		default:
			delivery.permit.Send(delivery.job)
		}
	}
	if len(back) > 0 {
		go d.putBack(back)
	}
	if end == database.Committed && len(waiting) > 0 {
		if _, own := waiting[ownEndpoint]; own {
			d.Wake()
		}
		d.wakeOwners(waiting)
	}
}

// putBack makes the deliveries of begun first attempts that this worker holds and will not send due at once, however
// long the database is unavailable. Each names the moment at which it began, so that a repetition, after a COMMIT
// without an answer, never meets a later attempt.
func (d *Dispatcher) putBack(jobs []job) {
	for pause := recordAgain; len(jobs) > 0; pause = min(2*pause, recordAgainMax) {
		ctx, cancel := context.WithTimeout(d.writing, storeTimeout)
		err := d.deps.DB.InTx(ctx, "give attempts back",
			func(ctx context.Context) error { return d.store.putBack(ctx, jobs, d.deps.Now()) })
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
	for _, j := range jobs {
		d.release(j.id)
	}
	d.Wake()
}

// Reserve waits until some of the wanted events can be sent when they are added, for roomWait at most, and returns how
// many. done is to be called after the transaction of Add, or instead of it.
func (d *Dispatcher) Reserve(want int) (n int, done func()) {
	const each = 2 // deliveries an event
	granted, release := d.scheduler.Reserve(each*min(want, addBatch), roomWait)
	return granted / each, release
}

func supplierIDs(events []Outgoing) []string {
	ids := make([]string, len(events))
	for i, e := range events {
		ids[i] = e.Round.SupplierID
	}
	return unique(ids)
}

func unique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// destination returns where a job goes, as the scheduler wants to know it.
func (d *Dispatcher) destination(j job) dispatch.Destination {
	if j.destination == ownEndpoint {
		return dispatch.Destination{Name: ownEndpoint}
	}
	return dispatch.Destination{Name: j.destination, Limit: max(j.target.Concurrency, 1)}
}
