package sending

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sleep"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	pollEvery      = time.Second     // while something that is due waits for its turn
	pollIdle       = 5 * time.Second // while nothing is due: each renewal of the lease looks too
	pollSoonest    = 10 * time.Millisecond
	pollHeld       = 50 * time.Millisecond // while another transaction holds a receiver that is due
	afterError     = time.Second
	storeTimeout   = 15 * time.Second
	defaultDrain   = 20 * time.Second
	afterDrain     = 3 * time.Second // for writing down what the drain cut off
	resultsBatch   = 128
	resultsLinger  = 20 * time.Millisecond // only the drain waits for a result
	recordAgain    = 100 * time.Millisecond
	recordAgainMax = 5 * time.Second
)

// errStopping is the error of an attempt that was cut off because the worker had to end.
var errStopping = errors.New("interrupted: the worker stopped during this attempt")

var errNoLease = errors.New("this worker has no lease")

// Deps is what the package is built from.
type Deps struct {
	DB           *database.DB
	Log          *slog.Logger
	Now          func() time.Time
	Since        func(time.Time) time.Duration // how long a call has lasted; nil: time.Since
	Destinations receivers.Destinations
	Ledger       deliveries.RequestLedger
	BaseURL      string           // of the own endpoint, which is trusted
	OwnSecrets   []webhook.Secret // sign what goes there
	Proofs       caller.Proofs    // that it is the service's own
	Timeout      time.Duration    // of one attempt
	Schedule     []time.Duration  // the waits between the attempts of a delivery
	AllowPrivate bool             // whether a supplier's receiver may have a special address
	Deny         Networks         // no supplier's receiver may be in one of them
	Concurrency  int              // attempts in flight
	PauseAfter   time.Duration    // after which of failures only a receiver is paused; 0: never
	Notifier     notice.Notifier  // notifies the operator; nil: it does not
	// wakes the owner of a shard, whichever process it is; nil: it finds out by itself, a second later
	Publish func(round.Message)
	// called when this worker's shards change, with all of them and with those of them that it took from dead workers;
	// nil: no other part needs them
	Owned      func(shards, orphans []int)
	Drain      time.Duration // how long Run lets attempts finish after its context ended; 0: 20 s
	Registerer prometheus.Registerer
	// the span that ctx is in, as W3C Trace Context writes it; nil: nothing is traced
	TraceParent func(ctx context.Context) string
	// nil: nothing is traced
	Trace func(ctx context.Context, name, method string, address func() *url.URL, attrs ...slog.Attr) (
		context.Context, func(status int, err error))
}

// Dispatcher keeps deliveries and sends them. Without Run it only keeps them: in an api or a command, which redelivers,
// pauses and lists, and wakes the workers that send.
//
// Run has three goroutines: the loop that looks and claims, the one that keeps the lease, and the one that stores the
// health of receivers. Each attempt has one more while its call lasts. They share the scheduler, which says how many
// calls are made, and held, which is what this worker has begun and not ended.
type Dispatcher struct {
	*deliveries.Keeper
	*receivers.Registry
	*owner
	due      *deliveries.DueStore
	sender   *sender
	lookup   *lookup
	results  *groupcommit.Batcher[deliveries.Result, struct{}]
	metrics  *metrics
	schedule deliveries.Schedule
	notices  notice.Notifier
	agenda   agenda // of Run alone, but for what expect says

	unwritten sync.WaitGroup // of the attempts that are held, those that have a slot or had one

	sending    context.Context // ends when the drain is over: attempts are cut off
	stopSend   context.CancelCauseFunc
	writing    context.Context // ends a little later
	stopWrites context.CancelFunc
}

// New builds a dispatcher; Close releases it.
func New(deps Deps) *Dispatcher {
	if deps.Since == nil {
		deps.Since = time.Since
	}
	if deps.TraceParent == nil {
		deps.TraceParent = logctx.TraceParent
	}
	if deps.Trace == nil {
		deps.Trace = func(ctx context.Context, _, _ string, _ func() *url.URL, _ ...slog.Attr) (
			context.Context, func(int, error)) {
			return ctx, func(int, error) {}
		}
	}
	deps.Drain = cmp.Or(deps.Drain, defaultDrain)
	d := &Dispatcher{
		owner: newOwner(deps), notices: notice.OrNone(deps.Notifier), due: deliveries.NewDueStore(deps.DB),
		sender: newSender(deps), schedule: deps.Schedule,
		lookup: &lookup{source: deps.Destinations, now: time.Now, known: map[string]knownReceiver{}},
	}
	d.Keeper = deliveries.NewKeeper(deliveries.KeeperDeps{DB: deps.DB, Log: deps.Log, Now: deps.Now, Ledger: deps.Ledger,
		Notifier: deps.Notifier, Stuck: deps.Timeout + 2*storeTimeout})
	d.Registry = receivers.NewRegistry(receivers.RegistryDeps{DB: deps.DB, Log: deps.Log, Now: deps.Now,
		Deliveries: d.Keeper, Addresses: deps.Destinations, Notifier: deps.Notifier,
		PauseAfter: deps.PauseAfter, Announce: d.announce})
	d.sending, d.stopSend = context.WithCancelCause(context.Background())
	d.writing, d.stopWrites = context.WithCancel(context.Background())
	d.scheduler = dispatch.New(dispatch.Config[job]{Slots: deps.Concurrency, Now: time.Now, Send: d.attempt,
		GiveBack: d.putBack, Wake: d.Wake})
	d.metrics = newMetrics(deps.Registerer, d.scheduler.InFlight)
	d.results = groupcommit.New(deps.DB.Flushers(), resultsBatch, resultsLinger, d.flushResults)
	return d
}

// Close ends everything at once. Call it after Run has returned.
func (d *Dispatcher) Close() {
	d.stopSend(errStopping)
	d.stopWrites()
	d.results.Close()
	d.sender.close()
}

// Run sends due deliveries until ctx ends. Then nothing new is begun and it returns when the attempts in flight are
// finished; those that outlast the drain are cut off and written down as interrupted. It may be called once.
//
// The order of the end matters: the lease outlasts the drain, as results are written under it; the health of receivers
// is stored when the last attempt has said what it came to; with the lease, at last, attempts still begun are made due,
// so that another worker need not wait until it runs out.
func (d *Dispatcher) Run(ctx context.Context) error {
	lasting := context.WithoutCancel(ctx) // the drain needs the lease
	got := make(chan struct{})
	endLeasing := background(lasting, func(ctx context.Context) { d.keepLease(ctx, got) })
	endLearning := background(lasting, d.KeepHealth)
	defer func() {
		endLearning()
		endLeasing()
		d.endLease(lasting)
	}()
	select {
	case <-got:
	case <-ctx.Done():
	}
	d.scheduler.Start()
	for ctx.Err() == nil {
		pause, err := d.claimOnce(lasting)
		if err != nil {
			if !errors.Is(err, errNoLease) { // why, the renewals log once a minute
				d.deps.Log.WarnContext(ctx, "look for due deliveries failed", "error", err)
			}
			sleep.For(ctx, afterError)
			continue
		}
		sleep.Until(ctx, pause, d.wake)
	}
	return d.drain(lasting)
}

// background runs something in the background until end is called, which waits for it.
func background(ctx context.Context, run func(context.Context)) (end func()) {
	ctx, stop := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { run(ctx) })
	return func() {
		stop()
		running.Wait()
	}
}

// drain ends what Run began. First the other workers learn that this one stops, so that its shards go to them while it
// finishes; attempts that are queued are put back (d). Then it waits for the attempts and for their results in the
// database. A call that is cut off has a result of its own, an interrupted attempt; one whose result cannot be written
// down counts as interrupted too (f).
func (d *Dispatcher) drain(ctx context.Context) error {
	d.Leave()
	stopped, idle := d.scheduler.Stop(), make(chan struct{})
	go func() {
		<-stopped
		d.unwritten.Wait()
		close(idle)
	}()
	if finished(idle, d.deps.Drain) {
		return nil
	}
	d.deps.Log.WarnContext(ctx, "deliveries are cut off: they did not finish in time", "in_flight", d.scheduler.InFlight())
	d.stopSend(errStopping)
	if finished(idle, afterDrain) {
		return nil
	}
	d.stopWrites()
	return errors.New("drain deliveries: results could not be written down; the attempts count as interrupted")
}

// finished reports whether it is done within the time.
func finished(done <-chan struct{}, within time.Duration) bool {
	timer := time.NewTimer(within)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// target returns where the destination's calls go, and the secrets that sign them.
func (d *Dispatcher) target(destination string, known map[string]receivers.Receiver) receivers.Receiver {
	if destination == deliveries.OwnEndpoint {
		return receivers.Receiver{URL: d.deps.BaseURL, Secrets: d.deps.OwnSecrets, Active: true}
	}
	return known[destination]
}

// lost records in the ledger that the own endpoint will not get the request's event. It joins the transaction that
// makes the delivery dead or failed (c, e): ended says which. A request of a later round, or one that has its
// estimates, is left as it is.
func (d *Dispatcher) lost(ctx context.Context, j deliveries.Begun, ended deliveries.Status, reason string) error {
	if j.Destination != deliveries.OwnEndpoint || d.deps.Ledger == nil {
		return nil
	}
	if ended == deliveries.Failed {
		return d.deps.Ledger.MarkRefused(ctx, j.Round, "the estimates were refused: "+reason)
	}
	return d.deps.Ledger.MarkFailed(ctx, j.Round, "the estimates could not be delivered: "+reason)
}

// attempt sends one begun attempt, frees its slot and records its result; an attempt taken over meanwhile is skipped.
//
// The lease is asked before the call: a worker that was stopped for longer than its lease sends nothing of what others
// have taken over (f). That may wait, so a pause is looked for after it. The look may take long: where the next renewal
// is late by then, both are asked again. The slot is free when the answer is there, up to 20 ms before the result is
// written: a crash in between is f. The health of the receiver, the agenda and the metrics take the answer in at once,
// the database by e. A call that the drain cut off says nothing of the receiver's health.
func (d *Dispatcher) attempt(j job, ended func(dispatch.Report) dispatch.Streak) {
	ctx := j.Context(d.sending)
	for fresh := false; !fresh; fresh = d.lease.worker() == j.Worker {
		if !d.lease.held(ctx, j.Worker) {
			d.release(j.ID)
			ended(dispatch.Report{Void: true})
			return
		}
		if d.overtaken(ctx, j) {
			ended(dispatch.Report{Void: true})
			d.giveUp(j)
			return
		}
	}
	call, cancel := context.WithTimeout(ctx, d.deps.Timeout)
	defer cancel()
	call, end := d.deps.Trace(call, "webhook attempt", http.MethodPost, j.shownAddress, slog.String("delivery_id", j.ID),
		slog.String("destination", j.Destination), slog.Int64("attempt", j.Number))
	j.TraceParent = d.deps.TraceParent(call)
	started := time.Now()
	a := d.sender.send(call, j, d.deps.Now())
	took := d.deps.Since(started)
	end(a.Status, a.Failure())

	now := d.deps.Now()
	outcome := d.schedule.Outcome(j.Destination, a, j.Series, now, rand.Float64())
	r := deliveries.NewResult(j.Begun, a, outcome, now.Add(-took), took)
	r.Ended, r.Measured = now, time.Now()
	cut := errors.Is(a.Err, errStopping)
	supplier := j.Destination != deliveries.OwnEndpoint
	lost := supplier && !d.ownership.owns(j.Destination) // what is known of it belongs to another worker by now
	streak := ended(dispatch.Report{OK: succeeded(j, a), Void: cut || lost, Took: took})
	if supplier {
		r.Address, r.URL = receivers.AddressOf(j.target.URL), caller.ShownURL(j.address())
		if !cut {
			d.Learn(ctx, r, streak)
		}
	}
	if outcome.Status == deliveries.Pending {
		d.agenda.expect(outcome.Next)
	}
	d.metrics.attempted(j.Destination, outcome.Status, took)
	d.logAttempt(ctx, j, a, outcome, took)
	d.unwritten.Add(1)
	d.record(ctx, r, recordAgain)
}

// succeeded reports whether the destination took the call, as far as the scheduler and the receiver's health are
// concerned. Our own endpoint lives when it refuses one; a receiver that refuses all of them fails.
func succeeded(j job, a deliveries.Answer) bool {
	if j.Destination == deliveries.OwnEndpoint {
		return deliveries.Classify(deliveries.OwnEndpoint, a) != deliveries.Pending
	}
	return deliveries.Classify(j.Destination, a) == deliveries.Delivered
}

// written ends an attempt whose result is in the database, or never will be: the drain waits for it.
func (d *Dispatcher) written(id string) {
	d.release(id)
	d.unwritten.Done()
}

// logAttempt writes the one line of an attempt: a warning when nothing is tried again.
func (d *Dispatcher) logAttempt(ctx context.Context, j job, a deliveries.Answer, outcome deliveries.Outcome,
	took time.Duration) {
	level := slog.LevelInfo
	if outcome.Status == deliveries.Dead || outcome.Status == deliveries.Failed {
		level = slog.LevelWarn
	}
	if !d.deps.Log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("destination", j.Destination), slog.Int64("attempt", j.Number),
		slog.Duration("duration", took), slog.String("outcome", string(outcome.Status)),
	}
	if a.Status != 0 {
		attrs = append(attrs, slog.Int("status", a.Status))
	}
	if a.Err != nil {
		attrs = append(attrs, slog.String("error", a.Err.Error()))
	}
	if outcome.Status == deliveries.Pending {
		attrs = append(attrs, slog.Time("next_attempt_at", outcome.Next))
	}
	d.deps.Log.LogAttrs(ctx, level, "webhook delivery attempted", attrs...)
}
