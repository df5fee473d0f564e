package queue

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// Each worker reads the stream through a consumer of its own, over the subjects that it asks for: in memory, without
// acknowledgements, gone soon after the worker is. Nothing of it is worth editing or repairing: the worker makes
// another one whenever it fails, whatever the reason, and whenever the subjects change.
//
// The client's own ordered consumer does nearly this. After a wiped or deleted stream it asks for the sequence number
// that it had reached, and the server, which counts from 1 again, gives it nothing until that is reached; it keeps to
// itself why it cannot be made; and to stop it waits for its next retry, up to 10 s.

const (
	consumeRetry = 500 * time.Millisecond // until a consumer that failed is made again
	heartbeat    = 2 * time.Second        // of the server while it has no message; two missing ones are a failure
	steadyAfter  = 3 * heartbeat          // a consumer that has not failed for so long brings messages
	forgottenFor = 10 * time.Second       // the server drops a consumer that was not read for so long
)

// Message is what was published under its subject.
type Message struct {
	Subject string
	Body    []byte
}

// Consume calls take with each message that is published under one of the subjects from now on, one after the other,
// and returns when ctx ends. take is to return soon. subjects is asked again after each note in changed; while it
// returns none, nothing is consumed. Messages that others publish while this process is cut off come later, if it is
// back within a minute; a message may get lost, and may come twice.
func (q *Queue) Consume(ctx context.Context, subjects func() []string, changed <-chan struct{}, take func(Message)) {
	r := &reader{queue: q, wanted: subjects, changed: changed, take: take}
	for r.follow(); ctx.Err() == nil; r.follow() {
		if len(r.subjects) == 0 {
			r.wait(ctx, nil)
			continue
		}
		if !q.ours.Load() {
			r.wait(ctx, time.After(consumeRetry))
			continue
		}
		if err := r.read(ctx); err != nil && ctx.Err() == nil {
			r.wait(ctx, time.After(consumeRetry)) // a server that stops says so before the connection is lost
			q.consumeFailed(err)
		}
	}
}

// consumeFailed keeps why no message comes, unless the reason is known.
func (q *Queue) consumeFailed(err error) {
	q.log.Debug("the queue's messages cannot be read, trying on", "error", err)
	if q.ours.Load() && q.store.reason() == nil && q.lacking() == nil {
		q.unread.setAfter(unreadFor, q.explain(err))
	}
}

// reader is a Consume under way. One goroutine uses it.
type reader struct {
	queue    *Queue
	wanted   func() []string
	changed  <-chan struct{}
	take     func(Message)
	subjects []string
	last     time.Time // the server's, of the last message that was taken or the first consumer; zero: none yet
}

// follow asks for the subjects, and reports whether they are others than before. Of others only new messages are
// read: who asks for them finds in the database what was before.
func (r *reader) follow() bool {
	subjects := slices.Compact(slices.Sorted(slices.Values(r.wanted())))
	if slices.Equal(subjects, r.subjects) {
		return false
	}
	r.subjects, r.last = subjects, time.Time{}
	return true
}

// wait waits for a note, the time, or the end of ctx.
func (r *reader) wait(ctx context.Context, until <-chan time.Time) {
	select {
	case <-ctx.Done():
	case <-r.changed:
	case <-until:
	}
}

// read takes messages until ctx ends, the subjects change or the consumer fails.
func (r *reader) read(ctx context.Context) error {
	consumer, err := r.queue.newConsumer(ctx, r.subjects, r.last)
	if err != nil {
		return err
	}
	if r.last.IsZero() {
		r.last = consumer.CachedInfo().Created
	}
	messages, failed, ended := make(chan jetstream.Msg), make(chan error, 1), make(chan struct{})
	defer close(ended)
	reading, err := consumer.Consume(func(m jetstream.Msg) {
		select {
		case messages <- m:
		case <-ended:
		}
	}, jetstream.PullHeartbeat(heartbeat), jetstream.ConsumeErrHandler(func(_ jetstream.ConsumeContext, err error) {
		select {
		case failed <- err:
		default: // the first one says enough
		}
	}))
	if err != nil {
		return err
	}
	defer reading.Stop()
	return r.pass(ctx, messages, failed)
}

// pass hands the messages over.
func (r *reader) pass(ctx context.Context, messages <-chan jetstream.Msg, failed <-chan error) error {
	steady := time.NewTimer(steadyAfter)
	defer steady.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
			if r.follow() {
				return nil
			}
		case <-steady.C:
			r.queue.unread.clear()
		case err := <-failed:
			return err
		case m := <-messages:
			if meta, err := m.Metadata(); err == nil {
				r.last = meta.Timestamp
			}
			r.queue.metrics.received.Inc()
			r.take(Message{Subject: r.queue.cfg.inside(m.Subject()), Body: m.Data()})
		}
	}
}

// newConsumer makes a consumer of the messages after the time, or of those that come from now on.
func (q *Queue) newConsumer(ctx context.Context, subjects []string, after time.Time) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	consumer, err := q.js.CreateConsumer(ctx, q.cfg.Stream, q.cfg.consumerConfig(subjects, after))
	if err != nil {
		return nil, fmt.Errorf("make a consumer of the stream %s: %w", q.cfg.Stream, err)
	}
	return consumer, nil
}
