package queue

import (
	"crypto/rand"
	"time"

	"github.com/nats-io/nats.go"
)

// Publishing never waits and never fails for its caller, which holds a request that is stored already: a message that
// is dropped, refused or unanswered is published again by the sweeper. The messages pass a buffer, a goroutine that
// may block in the socket, and a window of those without an answer. When for two seconds nothing of what is published
// is acknowledged, the queue counts as one that takes nothing (refused): probes go out until one is taken, and
// workers take their work from the database.

const (
	publishBuffer  = 8192 // messages that wait to be sent
	publishWindow  = 512  // sent ones that wait for their acknowledgement: the server answers pulls behind these
	publishTimeout = 5 * time.Second

	refusedFor = 2 * time.Second // nothing of what is published is acknowledged: the queue takes nothing

	// probes begin the subjects of messages that show whether the queue takes any; who consumes one forgets it.
	probes = root + "probe."
)

// message is what waits to be sent, under the server's name of its subject.
type message struct {
	subject string
	body    []byte
	direct  bool // to a worker, not into the stream
}

// Publish queues work under its subject, unless the same subject is queued or being worked on already. It returns at
// once and never fails: a message that cannot be sent now is counted as dropped, and its owner publishes it again.
func (q *Queue) Publish(subject string, body []byte) {
	if !validSubject(subject) {
		q.metrics.failed.Inc()
		q.log.Error("publish refused: not a subject", "subject", subject)
		return
	}
	if !q.Connected() || !q.ours.Load() {
		q.metrics.dropped.Inc()
		return
	}
	select {
	case <-q.stopped:
		q.metrics.dropped.Inc()
	case q.outgoing <- message{subject: q.cfg.outside(subject), body: body}:
	default:
		q.metrics.dropped.Inc()
	}
}

// publishOutgoing is between Publish and the socket, as writing to a server that no longer reads blocks.
func (q *Queue) publishOutgoing() {
	for {
		select {
		case m := <-q.outgoing:
			q.send(m)
		case <-q.stopped:
			q.sendRest()
			return
		}
	}
}

// sendRest sends what was published before the stop (select takes any case that is ready, so there may be some), for a
// moment only: a server that no longer reads must not hold up the stop.
func (q *Queue) sendRest() {
	for deadline := time.Now().Add(flushTimeout); time.Now().Before(deadline); {
		select {
		case m := <-q.outgoing:
			q.send(m)
		default:
			return
		}
	}
	q.metrics.dropped.Add(float64(len(q.outgoing)))
}

// send hands a message to the connection. It may block while the server does not read.
func (q *Queue) send(m message) {
	if m.direct {
		_ = q.nc.Publish(m.subject, m.body) // its receiver finds what is lost
		return
	}
	if _, err := q.js.PublishMsgAsync(&nats.Msg{Subject: m.subject, Data: m.body}); err != nil {
		q.metrics.dropped.Inc() // disconnected meanwhile, or the window stayed full
	}
}

// published is called with each acknowledgement.
func (q *Queue) published() {
	q.metrics.acked.Inc()
	if q.failing.Load() != 0 {
		q.failing.Store(0)
		q.refused.clear()
	}
}

// publishFailed is called for each message that was refused or not answered. A duplicate is as good as an
// acknowledgement: its subject is queued.
func (q *Queue) publishFailed(err error) {
	if queuedAlready(err) {
		q.metrics.duplicate.Inc()
		return
	}
	q.metrics.failed.Inc()
	q.log.Debug("publish failed", "error", err)
	now := time.Now()
	q.failing.CompareAndSwap(0, now.UnixNano())
	if since := q.failing.Load(); since != 0 && now.Sub(time.Unix(0, since)) >= refusedFor && q.lacking() == nil {
		q.refused.set(q.cfg.explainRefusal(err))
	}
	q.triggerReconcile()
}

// probe publishes a message of no meaning after a failure, until one is acknowledged: other messages may be held back
// until then.
func (q *Queue) probe() {
	if q.failing.Load() != 0 {
		q.Publish(newProbe(), nil)
	}
}

// newProbe returns a subject under which nothing is queued: a message that is refused for that says nothing.
func newProbe() string { return probes + rand.Text() }

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
