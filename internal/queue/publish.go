package queue

import (
	"time"

	"github.com/nats-io/nats.go"
)

// Publishing never waits and never fails for its caller, whose work is stored already: of a message that is dropped,
// refused or unanswered, workers find the work in the database a second later. The messages pass a buffer, a goroutine
// that may block in the socket, and a window of those without an answer. When for two seconds nothing of what is
// published is acknowledged, the queue counts as one that takes nothing (refused), and probes go out until one is
// taken.

const (
	publishBuffer  = 8192 // messages that wait to be sent
	publishWindow  = 512  // sent ones that wait for the server's answer
	publishTimeout = 5 * time.Second

	refusedFor = 2 * time.Second // nothing of what is published is acknowledged: the queue takes nothing

	probe = root + "probe" // subject of messages that show whether the queue takes any; no worker reads it
)

// Publish publishes a message under its subject. It returns at once and never fails: a message that cannot be sent now
// is counted as dropped.
func (q *Queue) Publish(subject string, body []byte) {
	if !q.Connected() || !q.ours.Load() {
		q.metrics.dropped.Inc()
		return
	}
	select {
	case <-q.stopped:
		q.metrics.dropped.Inc()
	case q.outgoing <- &nats.Msg{Subject: q.cfg.outside(subject), Data: body}:
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
func (q *Queue) send(m *nats.Msg) {
	if _, err := q.js.PublishMsgAsync(m); err != nil {
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

// publishFailed is called for each message that was refused or not answered.
func (q *Queue) publishFailed(err error) {
	q.metrics.failed.Inc()
	q.log.Debug("publish failed", "error", err)
	now := time.Now()
	q.failing.CompareAndSwap(0, now.UnixNano())
	if since := q.failing.Load(); since != 0 && now.Sub(time.Unix(0, since)) >= refusedFor && q.lacking() == nil {
		q.refused.set(q.cfg.explainRefusal(err))
	}
}
