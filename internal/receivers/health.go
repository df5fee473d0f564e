package receivers

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// healthEvery is how often what was learnt about receivers is stored, in one statement; that one begins to fail or
// recovers is stored at once.
const (
	healthEvery   = time.Second
	healthTimeout = 15 * time.Second // of storing it
)

// Who paused a receiver.
const (
	PausedBySupplier = "supplier"
	PausedByOperator = "operator" // only the operator resumes it
	PausedByService  = "service"  // it answered 410, or failed for too long
)

// ReceiverState is what is known of a supplier's receiver, apart from its address.
type ReceiverState struct {
	PausedBy     string     `json:"paused_by"` // empty: it is not paused
	PausedAt     *time.Time `json:"-"`
	Failures     int        `json:"consecutive_failures"`
	FailingSince *time.Time `json:"failing_since"` // the first of these failures
	LastSuccess  *time.Time `json:"last_success_at"`
	LastFailure  *time.Time `json:"last_failure_at"`
	LastError    string     `json:"last_error"` // of the last failure, also when it recovered since

	gone bool
}

// Failing reports whether the receiver's last calls failed, five of them at least.
func (r ReceiverState) Failing() bool { return r.Failures >= dispatch.FailingAt }

// ReceiverState returns the state of a supplier's receiver; one that was never called has the zero state.
func (d *Registry) ReceiverState(ctx context.Context, supplierID string) (ReceiverState, error) {
	states, err := d.health.receiverStates(ctx, `webhook_receivers WHERE supplier_id = $1`, supplierID)
	return states[supplierID], err
}

// Pause stops sending to the supplier's receiver: its deliveries are kept. An operator's pause outlasts a supplier's.
// Errors: errs.NotFound without the supplier, errs.Conflict without a receiver: none is paused in advance.
//
// From its COMMIT on the owner's claim begins nothing for the receiver, as it locks the row and sees it. An attempt
// that is begun and waits for its slot asks first when the owner was woken, and is put back. When the wake-up is lost
// it goes out within a second or asks first. A call that is under way ends, and its result is written.
func (d *Registry) Pause(ctx context.Context, supplierID, by string) error {
	err := d.deps.DB.InTx(ctx, "pause a receiver", func(ctx context.Context) error {
		if _, err := receiverOf(ctx, d.deps.Addresses, supplierID); err != nil {
			return err
		}
		return d.pause(ctx, supplierID, by, "", 0)
	})
	if err == nil {
		d.deps.Announce(true, supplierID)
	}
	return err
}

// Resume sends to the supplier's receiver again: all that waits is due now, in the order of acceptance, and none of it
// is changed for that. Errors: those of Pause, and errs.Conflict when an operator paused it, and by is not one. It is
// resumed last, so that a resume that fails is repeated whole.
func (d *Registry) Resume(ctx context.Context, supplierID, by string) error {
	if _, err := receiverOf(ctx, d.deps.Addresses, supplierID); err != nil {
		return err
	}
	state, err := d.ReceiverState(ctx, supplierID)
	if err != nil {
		return err
	}
	if state.PausedBy == PausedByOperator && by != PausedByOperator {
		return errPausedByOperator()
	}
	if err := d.due.CatchUp(ctx, []string{supplierID}, d.deps.Now()); err != nil {
		return err
	}
	resumed, err := d.health.resume(ctx, supplierID, by, d.deps.Now())
	if err == nil && !resumed {
		return errPausedByOperator()
	}
	if err == nil {
		d.deps.Announce(false, supplierID)
	}
	return err
}

func errPausedByOperator() error {
	return errs.New(errs.Conflict, "The operator paused this receiver, and only the operator can resume it.")
}

// A worker collects what the ends of attempts say of a receiver, and stores it once a second in one statement, at once
// when a receiver begins to fail or has recovered. News that a worker had not stored when it died are forgotten: too
// few failures put a state off, none is invented. Transactions lock receivers in the order of their suppliers, after
// deliveries and requests.

// health is what was learnt about a receiver and is not stored yet. It is added to what is stored, not put in its
// place: while a supplier moves from one worker to another both may have something to say.
type health struct {
	address          int64 // that was called
	failures         int   // since the last success; without one, since what is stored
	success, failure time.Time
	first            time.Time // of these failures
	lastError        string
}

// called is a receiver at one of its addresses: news of a former one say nothing of the present one.
type called struct {
	supplierID string
	address    int64
}

// healthLog collects what is learnt about receivers.
type healthLog struct {
	mu     sync.Mutex
	news   map[called]health
	urgent chan struct{}
}

func newHealthLog() *healthLog {
	return &healthLog{news: map[called]health{}, urgent: make(chan struct{}, 1)}
}

// Learn takes the end of an attempt to a supplier's receiver in. The worker that made the call calls it before the
// result is written down; it waits for no database. The streak is the scheduler's, which counts in memory and probes by
// it.
func (d *Registry) Learn(ctx context.Context, r deliveries.Result, streak dispatch.Streak) {
	l := d.news
	l.mu.Lock()
	to := called{r.Destination, r.Address}
	h := l.news[to]
	h.address = r.Address
	if ended := r.Began.Add(r.Took); r.Outcome.Status == deliveries.Delivered {
		h.success, h.failures, h.first = ended, 0, time.Time{}
	} else {
		if h.failure, h.lastError = ended, r.Reason(); h.failures == 0 {
			h.first = ended
		}
		h.failures++
	}
	l.news[to] = h
	l.mu.Unlock()
	switch {
	case streak.Failed():
		d.deps.Log.WarnContext(ctx, "receiver is failing", slog.String("error", r.Reason()))
	case streak.Recovered():
		d.deps.Log.InfoContext(ctx, "receiver has recovered")
	default:
		return
	}
	sleep.Wake(l.urgent)
}

// KeepHealth stores what is learnt until ctx ends, and then the rest. A worker runs it until its last attempt has
// ended.
func (d *Registry) KeepHealth(ctx context.Context) {
	for ctx.Err() == nil {
		select {
		case <-time.After(healthEvery):
		case <-d.news.urgent:
		case <-ctx.Done():
		}
		d.storeHealth(ctx)
	}
	d.storeHealth(ctx) // what came during the last one
}

// storeHealth stores what was learnt since the last time, and that all is due that waits for those that have recovered.
// News that could not be stored are added to those that come meanwhile, for the next time: a database that is away puts
// a state off and loses none.
func (d *Registry) storeHealth(ctx context.Context) {
	l := d.news
	news := l.take()
	if len(news) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), healthTimeout)
	defer cancel()
	var end database.End
	var recovered []string
	err := d.deps.DB.InTx(ctx, "store receivers' health", func(ctx context.Context) (err error) {
		d.deps.DB.AfterTx(ctx, func(e database.End) { end = e })
		if recovered, err = d.storeTurns(ctx, news); err != nil {
			return err
		}
		return d.pauseFailing(ctx, news)
	})
	if err == nil {
		for _, id := range recovered {
			d.deps.Announce(false, id)
		}
		return
	}
	d.deps.Log.WarnContext(ctx, "store the receivers' state failed", "error", err)
	l.unstored(news, end)
}

// unstored takes in news whose transaction ended so, for the next time. Failures that may be counted already are not
// counted again: too few put a state off, too many invent one. News that came meanwhile are newer and count as such.
func (l *healthLog) unstored(news map[string]health, end database.End) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, old := range news {
		if end == database.Unknown && old.success.IsZero() {
			old.failures, old.first = 0, time.Time{}
		}
		to := called{id, old.address}
		if newer, known := l.news[to]; known {
			old = newer.after(old)
		}
		l.news[to] = old
	}
}

// take returns what is to be stored now, by supplier. A receiver that was called at two addresses has the second one's
// news stored the next time.
func (l *healthLog) take() map[string]health {
	l.mu.Lock()
	defer l.mu.Unlock()
	news := make(map[string]health, len(l.news))
	for to, h := range l.news {
		if _, two := news[to.supplierID]; !two {
			news[to.supplierID] = h
			delete(l.news, to)
		}
	}
	return news
}

// after returns what both say together, h being the newer one.
func (h health) after(older health) health {
	if h.success.IsZero() {
		h.success = older.success
		if h.failures += older.failures; older.failures > 0 {
			h.first = older.first
		}
	}
	if h.failure.IsZero() {
		h.failure, h.lastError = older.failure, older.lastError
	}
	return h
}

// pauseFailing pauses receivers that have failed for as long as WEBHOOK_PAUSE_AFTER says. It joins the transaction that
// stores their failures, and the operator is notified in it. The claim sees the pause; no wake-up is needed, as a
// failing one has one probe at a time and nothing of it is queued.
func (d *Registry) pauseFailing(ctx context.Context, news map[string]health) error {
	if d.deps.PauseAfter == 0 {
		return nil
	}
	failing := slices.DeleteFunc(slices.Collect(maps.Keys(news)), func(id string) bool { return news[id].failures == 0 })
	now := d.deps.Now()
	paused, err := d.health.pauseFailing(ctx, failing, now.Add(-d.deps.PauseAfter), now)
	if err != nil {
		return err
	}
	for _, id := range paused {
		n := notice.Notice{Type: notice.ReceiverPaused, SupplierID: id, PausedBy: PausedByService, Error: news[id].lastError}
		if err := d.notices.Note(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// PauseGone pauses a receiver that answered 410, unless it has another address by now. It joins the transaction of ctx,
// which writes the answer down.
func (d *Registry) PauseGone(ctx context.Context, r deliveries.Result) error {
	return d.pause(ctx, r.Destination, PausedByService, r.Reason(), r.Address)
}

// pause pauses a receiver if it has the address, or whatever it has with 0. The operator is notified unless it is
// paused already.
func (d *Registry) pause(ctx context.Context, supplierID, by, reason string, address int64) error {
	paused, err := d.health.pause(ctx, supplierID, by, address, d.deps.Now())
	if err != nil || !paused {
		return err
	}
	return d.notices.Note(ctx,
		notice.Notice{Type: notice.ReceiverPaused, SupplierID: supplierID, PausedBy: by, Error: reason})
}

// storeTurns stores what was learnt about receivers, makes due what waits for those that have recovered by it, which it
// returns, and notifies the operator of these and of those that began to fail. The stored state decides that, and no
// other process changes it meanwhile: of two that saw it one notifies.
func (d *Registry) storeTurns(ctx context.Context, news map[string]health) (recovered []string, err error) {
	var before map[string]bool
	if d.notices.Open() {
		if before, err = d.health.lockFailing(ctx, slices.Sorted(maps.Keys(news))); err != nil {
			return nil, err
		}
	}
	after, recovered, err := d.health.saveHealth(ctx, news, d.deps.Now())
	if err == nil && len(recovered) > 0 {
		err = d.due.CatchUp(ctx, recovered, d.deps.Now())
	}
	if err != nil || !d.notices.Open() {
		return recovered, err
	}
	var notices []notice.Notice
	for _, id := range slices.Sorted(maps.Keys(news)) {
		switch _, counted := after[id]; {
		case !counted: // a former address's
		case after[id] && !before[id]:
			notices = append(notices, notice.Notice{Type: notice.ReceiverFailing, SupplierID: id, Error: news[id].lastError})
		case before[id] && !after[id]:
			notices = append(notices, notice.Notice{Type: notice.ReceiverRecovered, SupplierID: id})
		}
	}
	return recovered, d.notices.Note(ctx, notices...)
}
