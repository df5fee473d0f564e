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
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	addBatch = 128 // events a statement
	roomWait = 500 * time.Millisecond
)

// Outgoing is one event to be delivered. The same round twice is one event.
type Outgoing struct {
	Round       round.Round
	TraceID     string // X-Request-Id of the call that caused it
	TraceParent string // the span of that call; empty: it is not traced
	Event       webhook.Event
	Body        []byte // the event as JSON; nil: Add encodes it
}

// newDelivery is a delivery that Add makes. Its first attempt is begun with it when there is a permit, or when the
// worker that owns its supplier is to send it.
type newDelivery struct {
	job
	permit   dispatch.Permit[job]
	admitted bool
	handOver bool
}

func (d newDelivery) begun() bool { return d.admitted || d.handOver }

// startedAt returns when its begun attempt began.
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

// attemptedBy returns the worker of its begun attempt.
func (d newDelivery) attemptedBy() *int64 {
	if !d.begun() {
		return nil
	}
	return &d.worker
}

// newEvent is an event that Add stores, with its deliveries.
type newEvent struct {
	Outgoing
	ids        round.Event   // what its webhook-ids follow from
	stored     []byte        // its body, packed or as it is sent
	deliveries []newDelivery // the first goes to the own endpoint
}

// Add stores the events with one delivery to the own endpoint each and one to the supplier's receiver when it has one,
// in the transaction of ctx, and returns the rounds whose events were stored before: these stay as they are. What there
// are slots for is begun by Add itself, which saves a write, and sent when the transaction is committed. The rest is
// sent by whichever worker's Run comes first.
func (d *Dispatcher) Add(ctx context.Context, events []Outgoing) (before []round.Round, err error) {
	receivers, err := d.receivers.read(ctx, supplierIDs(events))
	if err != nil {
		return nil, err
	}
	now, worker, due := d.deps.Now(), d.lease.worker(), map[string]time.Time{}
	suppliers := slices.Collect(maps.Keys(receivers))
	for chunk := range slices.Chunk(events, addBatch) {
		prepared, err := d.prepare(ctx, chunk, receivers, worker, now)
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
func (d *Dispatcher) prepare(ctx context.Context, events []Outgoing, receivers map[string]Receiver, worker int64,
	now time.Time) ([]newEvent, error) {
	packed := d.deps.Packed && d.deps.DB.Lean(ctx)
	prepared := make([]newEvent, len(events))
	for i, e := range events {
		body := e.Body
		if body == nil {
			var err error
			if body, err = json.Marshal(e.Event); err != nil {
				return nil, fmt.Errorf("encode event of %s: %w", e.Round, err)
			}
		}
		prepared[i] = newEvent{Outgoing: e, ids: round.NewEvent(e.Round.UID, now), stored: body,
			deliveries: make([]newDelivery, 0, 2)}
		if packed {
			prepared[i].stored = pack.Stored(body)
		}
		add := func(kind round.Kind, destination string) {
			prepared[i].deliveries = append(prepared[i].deliveries, newDelivery{job: job{
				id: prepared[i].ids.WebhookID(kind), destination: destination, round: e.Round, number: 1, series: 1,
				worker: worker, begun: now, traceID: e.TraceID, traceParent: e.TraceParent, body: body,
				target: d.target(destination, receivers),
			}})
		}
		add(round.OwnEndpoint, OwnEndpoint)
		if receivers[e.Round.SupplierID].usable() {
			add(round.Receiver, e.Round.SupplierID)
		}
	}
	return prepared, nil
}

// insert stores deliveries and begins the attempts that may be; these are sent, or given back, when the transaction in
// ctx ends. due takes in to whom others have to wait.
func (d *Dispatcher) insert(ctx context.Context, deliveries []newDelivery, known map[string]standing,
	due map[string]time.Time, now time.Time) error {
	if len(deliveries) == 0 {
		return nil
	}
	for i := range deliveries {
		delivery := &deliveries[i]
		if delivery.worker != 0 {
			d.begin(delivery, known[delivery.destination])
		}
		if !delivery.begun() {
			due[delivery.destination] = now
		}
	}
	d.deps.DB.AfterTx(ctx, func(end database.End) { d.transactionEnded(end, deliveries) })
	return d.store.insertDeliveries(ctx, deliveries, now)
}

// begin begins the first attempt of a delivery with it: in this worker's name when it serves the destination and has
// room, or else in the name of the one that does. What goes to a paused or failing receiver is not begun.
func (d *Dispatcher) begin(delivery *newDelivery, known standing) {
	to := delivery.destination
	switch owner := d.ownership.owner(to); {
	case to != OwnEndpoint && (known.paused || known.failures >= dispatch.FailingAt || d.pauses.heard(to)):
	case to == OwnEndpoint || d.ownership.owns(to):
		destination := d.destination(delivery.job)
		destination.Failures = known.failures
		delivery.permit, delivery.admitted = d.scheduler.Admit(destination)
	case owner != delivery.worker && d.mayHandOver(delivery.job, owner) &&
		(!known.backlog || d.flow.mayJoin(owner, to, d.flowLimit()/2)):
		d.flow.handed(owner, 1)
		delivery.worker, delivery.handOver = owner, true
	}
}

// transactionEnded sends what is begun and committed. Of what may be committed it gives the attempts back.
func (d *Dispatcher) transactionEnded(end database.End, deliveries []newDelivery) {
	if end == database.Committed {
		d.handOver(deliveries) // at first: they have a longer way
	}
	var back []job
	wait := false
	for _, delivery := range deliveries {
		switch {
		case end == database.Committed && delivery.admitted:
			d.hold(delivery.job)
			delivery.permit.Send(delivery.job)
		case delivery.admitted:
			delivery.permit.Cancel()
		case delivery.handOver && end != database.Committed:
			d.flow.release(delivery.worker, 1)
		}
		wait = wait || !delivery.begun()
		if end == database.Unknown && delivery.begun() {
			back = append(back, delivery.job)
		}
	}
	switch {
	case len(back) > 0:
		go d.putBack(back)
	case end == database.Committed && wait:
		d.Wake()
	}
}

// putBack makes the deliveries of begun first attempts that are not sent due at once, however long the database is
// unavailable. Each names the lease under which it was begun: what another worker has taken over stays as it is.
func (d *Dispatcher) putBack(jobs []job) {
	for pause := recordAgain; len(jobs) > 0; pause = min(2*pause, recordAgainMax) {
		ctx, cancel := context.WithTimeout(d.writing, storeTimeout)
		err := d.deps.DB.InTx(ctx, "give attempts back", func(ctx context.Context) error { return d.store.putBack(ctx, jobs, d.deps.Now()) })
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
		d.drop(j.id)
	}
	d.reportEnded()
	d.Wake()
}

// Reserve waits until some of the wanted events can be sent when they are added, for roomWait at most, and returns how
// many. done is to be called after the transaction of Add, or instead of it.
func (d *Dispatcher) Reserve(want int) (n int, done func()) {
	const each = 2 // deliveries an event
	limit := d.flowLimit()
	d.flow.wait(limit, roomWait)
	granted, release := d.scheduler.Reserve(each*min(want, limit), roomWait)
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
