package sending

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

const (
	addBatch = 128 // events a statement
	roomWait = 500 * time.Millisecond
)

// These are steps a and b of the states (package deliveries), and d. The estimator's worker calls Add in the
// transaction that stores its results; calls and wake-ups hang on the transaction's own end. A COMMIT without an answer
// sends nothing: reconcile finds what was begun, and the owner what waits.

// planned is a delivery on its way into the database, and what is to be done about it after the COMMIT. With a permit
// it has a slot or a place in the ready queue from before its insertion on: used up by Send after the COMMIT, else by
// Cancel.
type planned struct {
	deliveries.DraftDelivery
	target receivers.Receiver
	permit dispatch.Permit[job]
}

// Add stores the events with one delivery to the own endpoint each and one to the supplier's receiver when it has one,
// in the transaction of ctx, and returns the rounds whose events were stored before: these stay as they are. First
// attempts that this worker owns and has room for are begun with their deliveries, which saves a write, and sent after
// the COMMIT. All others are due, and their owners are woken after the COMMIT.
//
// The receivers are read outside of the transaction: one that gets its address at the same moment has a delivery or
// not, and either is right. Their failures and pauses are read within it. The statements come in the order of locks:
// events, deliveries, and MarkDue for all chunks together as the last one.
func (d *Dispatcher) Add(ctx context.Context, events []round.Outgoing) (before []round.Round, err error) {
	looked := time.Now()
	receivers, err := d.lookup.read(ctx, supplierIDs(events))
	if err != nil {
		return nil, err
	}
	now, worker, due := d.deps.Now(), d.lease.worker(), map[string]time.Time{}
	suppliers := slices.Collect(maps.Keys(receivers))
	for chunk := range slices.Chunk(events, addBatch) {
		rows, err := prepare(chunk, now)
		if err != nil {
			return nil, err
		}
		fresh, known, err := d.attempts.InsertEvents(ctx, rows, suppliers, now)
		if err != nil {
			return nil, err
		}
		drafts := make([]planned, 0, 2*len(rows))
		for _, e := range rows {
			if !fresh[e.Round] {
				before = append(before, e.Round)
				continue
			}
			drafts = d.plan(drafts, e, receivers[e.Round.SupplierID], worker, now)
		}
		if err := d.insert(ctx, drafts, known, due, now, looked); err != nil {
			return nil, err
		}
	}
	return before, d.due.MarkDue(ctx, due, now)
}

// prepare makes the rows of the events. Each gets its nonce here, from which its webhook-ids follow: a transaction that
// is rolled back and repeated has other ids, and none is ever used twice.
func prepare(events []round.Outgoing, now time.Time) ([]deliveries.DraftEvent, error) {
	rows := make([]deliveries.DraftEvent, len(events))
	for i, e := range events {
		if e.Body == nil {
			var err error
			if e.Body, err = json.Marshal(e.Event); err != nil {
				return nil, fmt.Errorf("encode event of %s: %w", e.Round, err)
			}
		}
		rows[i] = deliveries.DraftEvent{Outgoing: e, Ids: round.NewEvent(e.Round.UID, now), Stored: pack.Pack(e.Body)}
	}
	return rows, nil
}

// plan appends the deliveries of an event: to the own endpoint, and to the supplier's receiver if it has one. That of a
// supplier who is deactivated waits.
func (d *Dispatcher) plan(drafts []planned, e deliveries.DraftEvent, receiver receivers.Receiver, worker int64,
	now time.Time) []planned {
	add := func(kind round.Kind, destination string, target receivers.Receiver) {
		drafts = append(drafts, planned{target: target, DraftDelivery: deliveries.DraftDelivery{Begun: deliveries.Begun{
			ID: e.Ids.WebhookID(kind), Destination: destination, Round: e.Round, Number: 1, Series: 1,
			Worker: worker, At: now, TraceID: e.TraceID, TraceParent: e.TraceParent, Body: e.Body,
		}}})
	}
	add(round.OwnEndpoint, deliveries.OwnEndpoint, d.target(deliveries.OwnEndpoint, nil))
	if receiver.URL != "" {
		add(round.Receiver, e.Round.SupplierID, receiver)
	}
	return drafts
}

// insert stores deliveries and begins the attempts that may be; these are sent when the transaction in ctx is
// committed. This worker holds them from before the COMMIT on, so that reconcile never takes them for forgotten. due
// collects the destinations whose deliveries must wait.
func (d *Dispatcher) insert(ctx context.Context, drafts []planned, known map[string]deliveries.Standing,
	due map[string]time.Time, now, looked time.Time) error {
	if len(drafts) == 0 {
		return nil
	}
	waiting := map[string]time.Time{}
	rows := make([]deliveries.DraftDelivery, len(drafts))
	for i := range drafts {
		delivery := &drafts[i]
		if delivery.Worker != 0 {
			d.begin(delivery, known[delivery.Destination])
		}
		if delivery.IsBegun {
			d.hold(delivery.ID)
		} else {
			due[delivery.Destination], waiting[delivery.Destination] = now, now
		}
		rows[i] = delivery.DraftDelivery
	}
	d.deps.DB.AfterTx(ctx, func(end database.End) { d.transactionEnded(end, drafts, waiting, looked) })
	return d.attempts.InsertDeliveries(ctx, rows, now)
}

// begin begins the first attempt of a delivery with it when this worker serves the destination and has room. A delivery
// to a paused or failing receiver waits. It does no harm that a shard moves before the COMMIT: the attempt is this
// worker's by its lease, and the new owner counts it against the receiver's limit (HeldBy).
func (d *Dispatcher) begin(delivery *planned, known deliveries.Standing) {
	to := delivery.Destination
	if to != deliveries.OwnEndpoint && (!delivery.target.Signed() || known.Paused ||
		known.Failures >= dispatch.FailingAt || !d.ownership.owns(to)) {
		return
	}
	delivery.permit, delivery.IsBegun = d.scheduler.Admit(d.destination(to, delivery.target, known.Failures))
}

// transactionEnded sends what is begun and committed, and wakes the owners of what waits. When the COMMIT got no answer
// nothing is sent and nothing undone: reconcile finds what is stored.
func (d *Dispatcher) transactionEnded(end database.End, drafts []planned, waiting map[string]time.Time,
	looked time.Time) {
	for _, delivery := range drafts {
		switch {
		case !delivery.IsBegun:
		case end != database.Committed:
			delivery.permit.Cancel()
			d.release(delivery.ID)
		default:
			delivery.permit.Send(job{Begun: delivery.Begun, target: delivery.target, looked: looked})
		}
	}
	if end == database.Committed && len(waiting) > 0 {
		for destination := range waiting {
			if destination == deliveries.OwnEndpoint {
				d.Wake()
			} else {
				d.announce(false, destination)
			}
		}
	}
}

// pauseUnseen is how long after its last look at the receiver an attempt may be sent without another one: no call
// begins later than a second after the answer to a pause.
const pauseUnseen = 900 * time.Millisecond

// overtaken reports whether the receiver was paused after the attempt was begun. The wake-up of a pause makes those of
// its shard ask; of one whose wake-up is lost the attempts hear that are so late.
func (d *Dispatcher) overtaken(ctx context.Context, j job) bool {
	switch {
	case j.Destination == deliveries.OwnEndpoint:
		return false
	case time.Since(j.looked) <= pauseUnseen && (j.At.IsZero() || !d.wakeUps.pausedSince(j.Destination, j.looked)):
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, leaseLife)
	defer cancel()
	paused, err := d.due.Paused(ctx, []string{j.Destination})
	return err != nil || len(paused) > 0
}

// giveUp leaves an attempt that is not sent to be due again: given back (d) when it was begun with its delivery, else
// by reconcile (f), and then it counts as interrupted.
func (d *Dispatcher) giveUp(j job) {
	if j.At.IsZero() {
		d.release(j.ID)
		return
	}
	d.putBack([]job{j})
}

// putBack makes the deliveries of begun first attempts that this worker holds and will not send due at once, however
// long the database is unavailable. Each names the moment at which it began, so that a repetition, after a COMMIT
// without an answer, never meets a later attempt.
func (d *Dispatcher) putBack(jobs []job) {
	attempts := lists.Of(jobs, func(j job) deliveries.Begun { return j.Begun })
	for pause := recordAgain; len(jobs) > 0; pause = min(2*pause, recordAgainMax) {
		ctx, cancel := context.WithTimeout(d.writing, storeTimeout)
		err := d.deps.DB.InTx(ctx, "give attempts back",
			func(ctx context.Context) error { return d.attempts.PutBack(ctx, attempts, d.deps.Now()) })
		cancel()
		if err == nil {
			break
		}
		d.deps.Log.WarnContext(ctx, "give webhook attempts back failed", "error", err)
		if d.writing.Err() != nil {
			return // they count as interrupted
		}
		sleep.For(d.writing, pause)
	}
	for _, j := range jobs {
		d.release(j.ID)
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

// supplierIDs returns the suppliers of the events, each once.
func supplierIDs(events []round.Outgoing) []string {
	ids := lists.Of(events, func(e round.Outgoing) string { return e.Round.SupplierID })
	slices.Sort(ids)
	return slices.Compact(ids)
}

// destination returns where a call goes, as the scheduler wants to know it.
func (d *Dispatcher) destination(to string, target receivers.Receiver, failures int) dispatch.Destination {
	if to == deliveries.OwnEndpoint {
		return dispatch.Destination{Name: to, Failures: failures}
	}
	return dispatch.Destination{Name: to, Limit: max(target.Concurrency, 1), Failures: failures}
}
