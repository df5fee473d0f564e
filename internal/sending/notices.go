package sending

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
)

// operatorEvents is the destination of events that are about the service itself. They are no deliveries: package notify
// keeps them.
const operatorEvents = "operator"

// Calls without a delivery: a supplier's test call and the operator's notices. Neither has a row here, a slot or a
// lease, and neither counts for the receiver's health. A test call that is cut off is lost with the request that asked
// for it; notices are kept and tried again by package notify.

// TestCall implements receivers.TestCaller.
func (d *Dispatcher) TestCall(ctx context.Context, supplierID, id string, to receivers.Receiver,
	event []byte) deliveries.Answer {
	return d.sender.callOnce(ctx, job{Begun: deliveries.Begun{ID: id, Destination: supplierID,
		Round:   round.Round{SupplierID: supplierID},
		TraceID: logctx.RequestID(ctx), Body: event}, target: to}, d.deps.Now())
}

// callOnce makes one call that no row keeps, within the time of an attempt.
func (s *sender) callOnce(ctx context.Context, j job, at time.Time) deliveries.Answer {
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.send(ctx, j, at)
}

// unsampled is where a call belongs that is no part of a trace.
const unsampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"

// TryOperator makes one signed call to the address itself, as SendToOperator does, for who has no Dispatcher and wants
// to know what the sender would meet.
func TryOperator(ctx context.Context, to receivers.Receiver, id string, body []byte, at time.Time,
	timeout time.Duration) deliveries.Answer {
	s := newSender(Deps{Timeout: timeout})
	defer s.close()
	return s.callOnce(ctx, job{Begun: deliveries.Begun{ID: id, Destination: operatorEvents, TraceID: id,
		TraceParent: unsampled, Body: body}, target: to}, at)
}

// SendToOperator makes one signed call to the address itself, which is trusted, and judges it as an attempt of a
// delivery.
func (d *Dispatcher) SendToOperator(ctx context.Context, to receivers.Receiver, id string, body []byte,
	attempt int64) (outcome deliveries.Outcome, reason string) {
	at := d.deps.Now()
	a := d.sender.callOnce(ctx, job{Begun: deliveries.Begun{ID: id, Destination: operatorEvents, TraceID: id, Body: body},
		target: to}, at)
	if err := a.Failure(); err != nil {
		reason = err.Error()
	}
	return d.schedule.Outcome(operatorEvents, a, attempt, d.deps.Now(), rand.Float64()), reason
}

// deadNotices reports which of the deliveries whose ends are written down are dead. They are stored in the transaction
// of e, with the ends.
func deadNotices(results []deliveries.Result, written map[string]bool) []notice.Notice {
	var notices []notice.Notice
	for _, r := range results {
		if written[r.ID] && r.Outcome.Status == deliveries.Dead {
			notices = append(notices, deliveries.DeadNotice(r.Round, r.ID, r.Reason()))
		}
	}
	return notices
}
