package queue

import (
	"github.com/nats-io/nats.go"
)

// Send sends a worker a message, fire and forget, and reports whether it may arrive.
func (q *Queue) Send(worker int64, body []byte) bool {
	if !q.Connected() {
		return false
	}
	select {
	case q.outgoing <- message{subject: q.cfg.peerSubject(worker), body: body, direct: true}:
		return true
	default:
		return false
	}
}

// Listen calls take with each message for the worker, one after the other, until stop.
func (q *Queue) Listen(worker int64, take func(body []byte)) (stop func(), err error) {
	subscription, err := q.nc.Subscribe(q.cfg.peerSubject(worker), func(m *nats.Msg) { take(m.Data) })
	if err != nil {
		return nil, err
	}
	// it fails when the connection is closed, and with it the subscription
	return func() { _ = subscription.Unsubscribe() }, nil
}
