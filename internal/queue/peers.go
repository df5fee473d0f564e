package queue

import (
	"strconv"

	"github.com/nats-io/nats.go"
)

// peerSubjects begin the subjects of messages between workers. No stream keeps them: what is lost is found by its
// receiver.
const peerSubjects = "workers."

// peerSubject names the installation too: of two on one server, each may have a worker of that number.
func (q *Queue) peerSubject(worker int64) string {
	subject := peerSubjects + q.cfg.Stream + "."
	if q.cfg.Installation != "" {
		subject += q.cfg.Installation + "."
	}
	return subject + strconv.FormatInt(worker, 10)
}

// Send sends a worker a message, fire and forget, and reports whether it may arrive.
func (q *Queue) Send(worker int64, body []byte) bool {
	if !q.Connected() {
		return false
	}
	select {
	case q.outgoing <- message{subject: q.peerSubject(worker), body: body, direct: true}:
		return true
	default:
		return false
	}
}

// Listen calls take with each message for the worker, one after the other, until stop.
func (q *Queue) Listen(worker int64, take func(body []byte)) (stop func(), err error) {
	subscription, err := q.nc.Subscribe(q.peerSubject(worker), func(m *nats.Msg) { take(m.Data) })
	if err != nil {
		return nil, err
	}
	// it fails when the connection is closed, and with it the subscription
	return func() { _ = subscription.Unsubscribe() }, nil
}
