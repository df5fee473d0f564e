package webhooks

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/supplyhub/supplyhub/internal/notice"
)

// operatorEvents is the destination of events that are about the service itself. They are no deliveries: package notify
// keeps them.
const operatorEvents = "operator"

// SendToOperator makes one signed call to the address itself, which is trusted, and judges it as an attempt of a
// delivery.
func (d *Dispatcher) SendToOperator(ctx context.Context, to Receiver, id string, body []byte,
	attempt int64) (outcome Outcome, reason string) {
	at := d.deps.Now()
	a := d.test(ctx, job{id: id, destination: operatorEvents, traceID: id, body: body, target: to, test: true}, at)
	if err := a.failure(); err != nil {
		reason = err.Error()
	}
	return d.schedule.outcome(operatorEvents, a, attempt, d.deps.Now(), rand.Float64()), reason
}

// Notifier stores notices for the operator.
type Notifier interface {
	Open() bool // reports whether notices are taken
	Note(ctx context.Context, notices ...notice.Notice) error
}

// notifies reports whether the operator is notified.
func (d *Dispatcher) notifies() bool { return d.deps.Notifier != nil && d.deps.Notifier.Open() }

// note stores notices for the operator; it joins the transaction in ctx.
func (d *Dispatcher) note(ctx context.Context, notices ...notice.Notice) error {
	if d.deps.Notifier == nil {
		return nil
	}
	return d.deps.Notifier.Note(ctx, notices...)
}

// deadNotices reports which of the deliveries whose ends are written down are dead.
func deadNotices(results []result, written map[string]bool) []notice.Notice {
	var notices []notice.Notice
	for _, r := range results {
		if written[r.id] && r.outcome.Status == Dead {
			notices = append(notices, r.dead(r.reason()))
		}
	}
	return notices
}

func (j job) dead(reason string) notice.Notice {
	return notice.Notice{Type: notice.DeliveryDead, SupplierID: j.round.SupplierID, Subject: j.id, Error: reason}
}

// pauseReceiver pauses a receiver; the operator is notified unless it is paused already. It joins the transaction of
// ctx.
func (d *Dispatcher) pauseReceiver(ctx context.Context, supplierID, by, reason string) error {
	paused, err := d.store.pause(ctx, supplierID, by, d.deps.Now())
	if err != nil || !paused {
		return err
	}
	return d.note(ctx,
		notice.Notice{Type: notice.ReceiverPaused, SupplierID: supplierID, PausedBy: by, Error: reason})
}

// storeTurns stores what was learnt about receivers and notifies the operator of those that began to fail or recovered
// with it. What is stored decides that, and no other process changes it meanwhile: of two that saw it one notifies.
func (d *Dispatcher) storeTurns(ctx context.Context, news map[string]health) error {
	if !d.notifies() {
		_, err := d.store.saveHealth(ctx, news, d.deps.Now())
		return err
	}
	before, err := d.store.lockFailing(ctx, news)
	if err != nil {
		return err
	}
	after, err := d.store.saveHealth(ctx, news, d.deps.Now())
	if err != nil {
		return err
	}
	var notices []notice.Notice
	for _, id := range slices.Sorted(maps.Keys(news)) {
		switch {
		case after[id] && !before[id]:
			notices = append(notices, notice.Notice{Type: notice.ReceiverFailing, SupplierID: id, Error: news[id].lastError})
		case before[id] && !after[id]:
			notices = append(notices, notice.Notice{Type: notice.ReceiverRecovered, SupplierID: id})
		}
	}
	return d.note(ctx, notices...)
}
