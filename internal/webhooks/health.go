package webhooks

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/notice"
)

// healthEvery is how often what was learnt about receivers is stored, in one statement; that one begins to fail or
// recovers is stored at once.
const healthEvery = time.Second

// Who paused a receiver.
const (
	PausedBySupplier = "supplier"
	PausedByOperator = "operator" // only the operator resumes it
	PausedByService  = "service"  // it answered 410, or failed for too long
)

// ReceiverState is what is known of a supplier's receiver, apart from its address.
type ReceiverState struct {
	PausedBy     string // empty: it is not paused
	PausedAt     *time.Time
	Failures     int        // in a row
	FailingSince *time.Time // nil unless five calls in a row failed
	LastSuccess  *time.Time
	LastFailure  *time.Time
	LastError    string // of the last failure, also when it recovered since
}

// Failing reports whether the receiver's last calls failed, five of them at least.
func (r ReceiverState) Failing() bool { return r.Failures >= dispatch.FailingAt }

// ReceiverState returns the state of a supplier's receiver; one that was never called has the zero state.
func (d *Dispatcher) ReceiverState(ctx context.Context, supplierID string) (ReceiverState, error) {
	return d.store.receiverState(ctx, supplierID)
}

// Pause stops sending to the supplier's receiver: its deliveries are kept. An operator's pause outlasts a supplier's.
func (d *Dispatcher) Pause(ctx context.Context, supplierID, by string) error {
	err := d.deps.DB.InTx(ctx, "pause a receiver",
		func(ctx context.Context) error { return d.pauseReceiver(ctx, supplierID, by, "") })
	if err != nil {
		return err
	}
	d.announce(ctx, shardPaused, supplierID)
	return nil
}

// Resume sends to the supplier's receiver again: what waits for it is due now, the longest due first. errs.Conflict: an
// operator paused it, and by is not one. It is resumed last, so that a resume that fails is repeated whole.
func (d *Dispatcher) Resume(ctx context.Context, supplierID, by string) error {
	state, err := d.store.receiverState(ctx, supplierID)
	if err != nil {
		return err
	}
	if state.PausedBy == PausedByOperator && by != PausedByOperator {
		return errPausedByOperator()
	}
	if err := d.sendWaiting(ctx, supplierID); err != nil {
		return err
	}
	resumed, err := d.store.resume(ctx, supplierID, by, d.deps.Now())
	if err == nil && !resumed {
		return errPausedByOperator()
	}
	if err != nil {
		return err
	}
	d.announce(ctx, shardDue, supplierID)
	return nil
}

func errPausedByOperator() error {
	return errs.New(errs.Conflict, "The operator paused this receiver, and only the operator can resume it.")
}

// sendWaiting makes what waits for the supplier's receiver due now, in batches, the oldest first. Schedules go on.
func (d *Dispatcher) sendWaiting(ctx context.Context, supplierID string) error {
	_, err := d.redeliver(ctx, Filter{Receiver: supplierID, Status: Pending, unchanged: d.deps.Now()}, func(int64) {})
	if err != nil {
		return fmt.Errorf("send what waits for a receiver: %w", err)
	}
	return nil
}

// health is what was learnt about a receiver and is not stored yet. It is added to what is stored, not put in its
// place: while a supplier moves from one worker to another both may have something to say.
type health struct {
	failures         int // since the last success; without one, since what is stored
	success, failure time.Time
	lastError        string
}

// healthLog collects what is learnt about receivers.
type healthLog struct {
	mu     sync.Mutex
	news   map[string]health
	urgent chan struct{}
}

func newHealthLog() *healthLog {
	return &healthLog{news: map[string]health{}, urgent: make(chan struct{}, 1)}
}

// learn takes the end of an attempt to a supplier's receiver in.
func (d *Dispatcher) learn(ctx context.Context, r result, streak dispatch.Streak) {
	l := d.health
	l.mu.Lock()
	h := l.news[r.destination]
	if ended := r.began.Add(r.took); r.outcome.Status == Delivered {
		h.success, h.failures = ended, 0
	} else {
		h.failure, h.lastError = ended, r.reason()
		h.failures++
	}
	l.news[r.destination] = h
	l.mu.Unlock()
	switch {
	case streak.Failed():
		d.deps.Log.WarnContext(ctx, "receiver is failing", slog.String("error", r.reason()))
	case streak.Recovered():
		d.deps.Log.InfoContext(ctx, "receiver has recovered")
	default:
		return
	}
	select {
	case l.urgent <- struct{}{}:
	default:
	}
}

// keepHealth stores what is learnt until ctx ends, and then the rest.
func (d *Dispatcher) keepHealth(ctx context.Context) {
	for ctx.Err() == nil {
		d.sleep(ctx, healthEvery, d.health.urgent)
		d.storeHealth(ctx)
	}
}

// storeHealth stores what was learnt since the last time. A receiver that has recovered is stored as failing until what
// waits for it is due, so that a worker that dies in between leaves that to the next success.
func (d *Dispatcher) storeHealth(ctx context.Context) {
	l := d.health
	l.mu.Lock()
	news := l.news
	l.news = make(map[string]health, len(news))
	l.mu.Unlock()
	if len(news) == 0 {
		return
	}
	if err := d.sendToRecovered(ctx, news); err != nil && ctx.Err() == nil {
		d.deps.Log.WarnContext(ctx, "what waits for receivers that answer again is not sent yet", "error", err)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	var end database.End
	err := d.deps.DB.InTx(ctx, "store receivers' health", func(ctx context.Context) error {
		d.deps.DB.AfterTx(ctx, func(e database.End) { end = e })
		if err := d.storeTurns(ctx, news); err != nil {
			return err
		}
		return d.pauseFailing(ctx, news)
	})
	if err == nil {
		return
	}
	d.deps.Log.WarnContext(ctx, "store the receivers' state failed", "error", err)
	for id, old := range news {
		if end == database.Unknown && old.success.IsZero() {
			old.failures = 0 // they may be counted already: too few put a state off, too many invent one
		}
		l.again(id, old)
	}
}

// again takes in what could not be stored, for the next time.
func (l *healthLog) again(supplierID string, old health) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if newer, known := l.news[supplierID]; known {
		old = newer.after(old)
	}
	l.news[supplierID] = old
}

// sendToRecovered makes due what waits for the receivers that were failing and have answered. Where that fails the news
// of them is taken out, for the next time.
func (d *Dispatcher) sendToRecovered(ctx context.Context, news map[string]health) error {
	var answered []string
	for id, h := range news {
		if !h.success.IsZero() {
			answered = append(answered, id)
		}
	}
	reading, cancel := context.WithTimeout(context.WithoutCancel(ctx), storeTimeout)
	defer cancel()
	failing, err := d.store.failing(reading, answered)
	if err != nil {
		failing = answered // it is not known which of them were
	}
	for _, id := range failing {
		if err == nil {
			err = d.sendWaiting(ctx, id)
		}
		if err != nil {
			d.health.again(id, news[id])
			delete(news, id)
			continue
		}
		d.woken(appendWakeUp(nil, shardDue, id))
	}
	return err
}

// after returns what both say together, h being the newer one.
func (h health) after(older health) health {
	if h.success.IsZero() {
		h.success = older.success
		h.failures += older.failures
	}
	if h.failure.IsZero() {
		h.failure, h.lastError = older.failure, older.lastError
	}
	return h
}

// pauseFailing pauses receivers that have failed for as long as WEBHOOK_PAUSE_AFTER says.
func (d *Dispatcher) pauseFailing(ctx context.Context, news map[string]health) error {
	if d.deps.PauseAfter == 0 {
		return nil
	}
	var failing []string
	for id, h := range news {
		if h.failures > 0 {
			failing = append(failing, id)
		}
	}
	now := d.deps.Now()
	paused, err := d.store.pauseFailing(ctx, failing, now.Add(-d.deps.PauseAfter), now)
	if err != nil {
		return err
	}
	for _, id := range paused {
		n := notice.Notice{Type: notice.ReceiverPaused, SupplierID: id, PausedBy: PausedByService, Error: news[id].lastError}
		if err := d.note(ctx, n); err != nil {
			return err
		}
	}
	return nil
}

// gone reports whether the receiver wants nothing more.
func (r result) gone() bool {
	return r.destination != ownEndpoint && r.status != nil && *r.status == http.StatusGone
}
