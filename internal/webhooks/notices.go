package webhooks

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/round"
)

// operatorEvents is the destination of events that are about the service itself. They are no deliveries: package notify
// keeps them.
const operatorEvents = "operator"

// TestCall implements Caller.
func (d *Dispatcher) TestCall(ctx context.Context, supplierID, id string, to Receiver, event []byte) (
	status int, answer []byte, err error) {
	a := d.callOnce(ctx, job{begun: begun{id: id, destination: supplierID, round: round.Round{SupplierID: supplierID},
		traceID: logctx.RequestID(ctx), body: event}, target: to, test: true}, d.deps.Now())
	return a.status, a.body, a.err
}

// callOnce makes one call that no row keeps, within the time of an attempt.
func (d *Dispatcher) callOnce(ctx context.Context, j job, at time.Time) answer {
	ctx, cancel := context.WithTimeout(ctx, d.deps.Timeout)
	defer cancel()
	return d.sender.send(ctx, j, at)
}

// SendToOperator makes one signed call to the address itself, which is trusted, and judges it as an attempt of a
// delivery.
func (d *Dispatcher) SendToOperator(ctx context.Context, to Receiver, id string, body []byte,
	attempt int64) (outcome Outcome, reason string) {
	at := d.deps.Now()
	a := d.callOnce(ctx, job{begun: begun{id: id, destination: operatorEvents, traceID: id, body: body}, target: to, test: true}, at)
	if err := a.failure(); err != nil {
		reason = err.Error()
	}
	return d.schedule.outcome(operatorEvents, a, attempt, d.deps.Now(), rand.Float64()), reason
}

// deadNotices reports which of the deliveries whose ends are written down are dead.
func deadNotices(results []result, written map[string]bool) []notice.Notice {
	var notices []notice.Notice
	for _, r := range results {
		if written[r.id] && r.outcome.Status == Dead {
			notices = append(notices, deadNotice(r.round, r.id, r.reason()))
		}
	}
	return notices
}
