package webhooks

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"

	"github.com/supplyhub/supplyhub/internal/notify"
)

// Operator is the destination of events that are about the service itself. They are no deliveries: package notify keeps
// them.
const Operator = "operator"

// SendToOperator makes one signed call to the address itself, which is trusted, and judges it as an attempt of a
// delivery.
func (d *Dispatcher) SendToOperator(ctx context.Context, to Receiver, id string, body []byte,
	attempt int64) (outcome Outcome, reason string) {
	at := d.deps.Now()
	a := d.test(ctx, job{id: id, destination: Operator, traceID: id, body: body, target: to, test: true}, at)
	if err := a.failure(); err != nil {
		reason = err.Error()
	}
	return d.schedule.outcome(a, attempt, d.deps.Now(), rand.Float64()), reason
}

// deadNotices says which of the deliveries whose ends are written down are dead.
func deadNotices(results []result, written map[string]bool) []notify.Notice {
	var notices []notify.Notice
	for _, r := range results {
		if written[r.id] && r.outcome.Status == Dead {
			notices = append(notices, r.dead(r.reason()))
		}
	}
	return notices
}

func (j job) dead(reason string) notify.Notice {
	return notify.Notice{Type: notify.DeliveryDead, SupplierID: j.round.SupplierID, Subject: j.id, Error: reason}
}

// pauseReceiver pauses a receiver; the operator is notified unless it is paused already. It joins the transaction of
// ctx.
func (d *Dispatcher) pauseReceiver(ctx context.Context, supplierID, by, reason string) error {
	paused, err := d.store.pause(ctx, supplierID, by, d.deps.Now())
	if err != nil || !paused {
		return err
	}
	return d.deps.Notifier.Note(ctx, notify.Notice{Type: notify.ReceiverPaused, SupplierID: supplierID, PausedBy: by,
		Error: reason})
}

// storeTurns stores what was learnt about receivers and notifies the operator of those that began to fail or recovered
// with it. What is stored decides that, and no other process changes it meanwhile: of two that saw it one notifies.
func (d *Dispatcher) storeTurns(ctx context.Context, news map[string]health) error {
	if !d.deps.Notifier.Open() {
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
	var notices []notify.Notice
	for _, id := range slices.Sorted(maps.Keys(news)) {
		switch {
		case after[id] && !before[id]:
			notices = append(notices, notify.Notice{Type: notify.ReceiverFailing, SupplierID: id, Error: news[id].lastError})
		case before[id] && !after[id]:
			notices = append(notices, notify.Notice{Type: notify.ReceiverRecovered, SupplierID: id})
		}
	}
	return d.deps.Notifier.Note(ctx, notices...)
}
