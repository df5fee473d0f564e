package queue

import (
	"context"
	"errors"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	ensureTimeout = 5 * time.Second
	ensureRetry   = time.Second
)

// lookAgain makes keep look whether stream and consumer are there; it never blocks.
func (q *Queue) lookAgain() {
	select {
	case q.missing <- struct{}{}:
	default:
	}
}

// keep creates the stream and the consumer whenever they may be missing: at the start, after a reconnect, and when
// a publish or a pull found nobody. A store that was wiped while everything runs comes back that way.
func (q *Queue) keep(ctx context.Context) {
	reported := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.missing:
		}
		if !q.Connected() {
			continue // the connection's return is a reason to look again
		}
		err := q.ensure(ctx)
		if err == nil {
			reported = false
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if !reported {
			q.log.ErrorContext(ctx, "create the queue's stream and consumer failed, trying on", "error", err)
		}
		reported = true
		pause(ctx, ensureRetry)
		q.lookAgain()
	}
}

func (q *Queue) ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	stream, err := q.js.CreateOrUpdateStream(ctx, q.streamConfig())
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) { // another process was faster
		stream, err = q.js.UpdateStream(ctx, q.streamConfig())
	}
	if err != nil {
		return err
	}
	consumer, err := stream.CreateOrUpdateConsumer(ctx, q.consumerConfig())
	if err != nil {
		return err
	}
	q.consumer.Store(&consumer)
	return nil
}

// streamConfig keeps one message a subject: what is queued or being worked on is not queued again.
func (q *Queue) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 StreamName,
		Description:          "material requests that wait for a worker",
		Subjects:             []string{Subjects},
		Retention:            jetstream.WorkQueuePolicy,
		Storage:              jetstream.FileStorage,
		Replicas:             q.cfg.Replicas,
		Discard:              jetstream.DiscardNew,
		DiscardNewPerSubject: true,
		MaxMsgsPerSubject:    1,
		MaxMsgs:              maxMessages,
		MaxBytes:             q.cfg.MaxBytes,
	}
}

func (q *Queue) consumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       ConsumerName,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       q.cfg.AckWait,
		MaxDeliver:    -1,
		MaxAckPending: maxAckPending,
	}
}

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
