// Package notify sends the operator events: receivers that fail, recover or are paused, deliveries that are given up,
// requests that fail. A notice is stored in the transaction of what it reports, and put into an event. Whichever worker
// comes first sends the event, until the operator's receiver takes it or the schedule is used up.
package notify

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// A notice to the operator is stored in the transaction of what it reports, so none is lost and none reports what did
// not happen. Run takes the notices together into events, sums up those of one kind and supplier
// for a minute, and sends each event as a signed webhook. An event is claimed for a lease before it is sent: a
// process that dies in between leaves it to the next one, so the operator may get it twice, under the same webhook-
// id.

const (
	// window is what an event that sums up covers, beginning with the first.
	window = time.Minute
	settle = time.Second // after the window, for what is committed late

	lookEvery = time.Second
	longest   = 500 // bytes of an error in an event
)

// summed reports whether notices of the kind are summed up.
func summed(n notice.Notice) bool {
	return n.Type == notice.DeliveryDead || n.Type == notice.RequestFailed
}

// Verdict is what became of an attempt to send an event.
type Verdict struct {
	Delivered bool
	Again     time.Time // when to try again; zero: never
	Reason    string    // why it was not delivered
}

// Deps is what the package is built from.
type Deps struct {
	DB      *database.DB
	Log     *slog.Logger
	Now     func() time.Time
	Names   func(ctx context.Context, supplierIDs []string) (map[string]string, error)
	Send    func(ctx context.Context, id string, body []byte, attempt int64) Verdict
	Timeout time.Duration // of one attempt
}

// Notifier stores notices and, while it runs, sends them. A nil Notifier does nothing: the operator wants no notices.
type Notifier struct {
	deps  Deps
	store store
}

// New returns a notifier.
func New(deps Deps) *Notifier { return &Notifier{deps: deps, store: store{deps.DB}} }

// Open reports whether notices are taken.
func (d *Notifier) Open() bool { return d != nil }

// Note stores notices for the operator; it joins the transaction in ctx.
func (d *Notifier) Note(ctx context.Context, notices ...notice.Notice) error {
	if d == nil || len(notices) == 0 {
		return nil
	}
	now := d.deps.Now()
	for _, n := range notices {
		n.Error = database.Text(n.Error, longest)
		if err := d.store.add(ctx, n, now); err != nil {
			return fmt.Errorf("store operator notice: %w", err)
		}
	}
	return nil
}

// Run puts notices into events and sends these until ctx ends. Attempts in flight are finished.
func (d *Notifier) Run(ctx context.Context) error {
	if d == nil {
		return nil
	}
	var running sync.WaitGroup
	running.Go(func() { d.again(ctx, "put operator notices together", d.gather) })
	running.Go(func() { d.again(ctx, "send operator events", d.send) })
	running.Wait()
	return nil
}

// again calls step without a pause while it has something to do.
func (d *Notifier) again(ctx context.Context, what string, step func(context.Context) (busy bool, err error)) {
	for ctx.Err() == nil {
		busy, err := step(context.WithoutCancel(ctx))
		if err != nil {
			d.deps.Log.WarnContext(ctx, what+" failed", "error", err)
		}
		if err == nil && busy {
			continue
		}
		sleep.For(ctx, lookEvery)
	}
}

const (
	sendAtOnce = 8
	sendGrace  = 5 * time.Second // beyond its timeout, after which an attempt counts as interrupted
)

// send makes one attempt for each of some events that are due. An attempt is begun in the database first: of a process
// that dies in it another one sends the event again.
func (d *Notifier) send(ctx context.Context) (busy bool, err error) {
	due, err := d.store.claim(ctx, d.deps.Now(), d.deps.Timeout+sendGrace, sendAtOnce)
	var attempts sync.WaitGroup
	for _, e := range due {
		attempts.Go(func() { d.attempt(ctx, e) })
	}
	attempts.Wait()
	return len(due) == sendAtOnce, err
}

// attempt sends one event and forgets it when the receiver took it; otherwise it is put off, longer each time.
func (d *Notifier) attempt(ctx context.Context, e *event) {
	log := d.deps.Log.With(slog.String("event_id", e.id), slog.String("event_type", e.kind),
		slog.String("supplier_id", e.supplierID), slog.Int64("attempt", e.attempts))
	body, err := e.body()
	if err != nil {
		log.ErrorContext(ctx, "operator event cannot be sent", "error", err)
		return
	}
	verdict := d.deps.Send(ctx, e.id, body, e.attempts)
	switch {
	case verdict.Delivered:
		log.InfoContext(ctx, "operator event delivered")
		err = d.store.forget(ctx, e)
	case verdict.Again.IsZero():
		log.ErrorContext(ctx, "operator event is given up", "error", verdict.Reason, "event", string(body))
		err = d.store.forget(ctx, e)
	default:
		log.WarnContext(ctx, "operator event is not delivered yet", "error", verdict.Reason, "next_attempt_at", verdict.Again)
		err = d.store.putOff(ctx, e, verdict.Again)
	}
	if err != nil { // it counts as interrupted
		log.WarnContext(ctx, "write operator event down failed", "error", err)
	}
}
