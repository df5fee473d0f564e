package queue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	ensureTimeout = 5 * time.Second
	ensureRetry   = time.Second
	lookEvery     = 10 * time.Second // without a reason
)

// triggerReconcile makes keep look whether stream and consumer are there; it never blocks.
func (q *Queue) triggerReconcile() {
	select {
	case q.missing <- struct{}{}:
	default:
	}
}

// reconcileLoop creates the stream and the consumer whenever they may be missing: at the start, after a reconnect, and
// when a publish or a pull had no responder. A store that was wiped while everything runs comes back that way.
func (q *Queue) reconcileLoop(ctx context.Context) {
	look := time.NewTicker(lookEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.missing:
		case <-look.C:
		}
		if !q.Connected() {
			continue // the connection's return is a reason to look again
		}
		err := q.ensure(ctx)
		if err == nil {
			q.store.clear()
			continue
		}
		if ctx.Err() != nil {
			return
		}
		if q.Connected() && q.lacking() == nil { // a permission that is lacking is in the log
			q.store.set(q.explain(err))
		}
		pause(ctx, ensureRetry)
		q.triggerReconcile()
	}
}

// ensure writes only what is missing or different: the server is shared, and a change of the stream while another
// process makes its consumer disturbs both.
func (q *Queue) ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, ensureTimeout)
	defer cancel()
	stream, err := q.ensureStream(ctx)
	if err != nil {
		return err
	}
	consumer, err := q.ensureConsumer(ctx, stream)
	if err != nil {
		return err
	}
	q.consumer.Store(&consumer)
	return nil
}

func (q *Queue) ensureStream(ctx context.Context) (jetstream.Stream, error) {
	stream, err := q.js.Stream(ctx, q.cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = q.js.CreateStream(ctx, q.streamConfig())
		if !errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			return stream, err
		}
		stream, err = q.js.Stream(ctx, q.cfg.Stream) // another process, configured differently, was faster
	}
	if err != nil {
		return nil, err
	}
	have := stream.CachedInfo().Config
	if err := q.foreign(have); err != nil {
		return nil, err
	}
	want := q.adjusted(have)
	if reflect.DeepEqual(have, want) {
		return stream, nil
	}
	return q.js.UpdateStream(ctx, want)
}

// foreign returns an error when the stream was made by another program: what makes it a work queue cannot be changed,
// and messages under other subjects are not ours to drop.
func (q *Queue) foreign(have jetstream.StreamConfig) error {
	want := q.streamConfig()
	switch {
	case have.Retention != want.Retention:
		return fmt.Errorf("the stream %s was made by another program: its retention is %s, not %s; "+
			"choose another NATS_STREAM",
			have.Name, have.Retention, want.Retention)
	case have.Storage != want.Storage:
		return fmt.Errorf("the stream %s was made by another program: its storage is %s, not %s; choose another NATS_STREAM",
			have.Name, have.Storage, want.Storage)
	case !slices.Equal(have.Subjects, want.Subjects):
		return fmt.Errorf("the stream %s was made by another program: its subjects are %s, not %s; "+
			"choose another NATS_STREAM",
			have.Name, strings.Join(have.Subjects, ", "), strings.Join(want.Subjects, ", "))
	default:
		return nil
	}
}

func (q *Queue) ensureConsumer(ctx context.Context, stream jetstream.Stream) (jetstream.Consumer, error) {
	consumer, err := stream.Consumer(ctx, consumerName)
	if errors.Is(err, jetstream.ErrConsumerNotFound) {
		consumer, err = stream.CreateConsumer(ctx, q.consumerConfig())
		if !errors.Is(err, jetstream.ErrConsumerExists) {
			return consumer, err
		}
		consumer, err = stream.Consumer(ctx, consumerName)
	}
	if err != nil {
		return nil, err
	}
	have, want := consumer.CachedInfo().Config, q.consumerConfig()
	if have.AckWait == want.AckWait && have.MaxDeliver == want.MaxDeliver && have.MaxAckPending == want.MaxAckPending {
		return consumer, nil
	}
	have.AckWait, have.MaxDeliver, have.MaxAckPending = want.AckWait, want.MaxDeliver, want.MaxAckPending
	return stream.UpdateConsumer(ctx, have)
}

// adjusted returns have with our values in it; what the server or its operator added stays.
func (q *Queue) adjusted(have jetstream.StreamConfig) jetstream.StreamConfig {
	want := q.streamConfig()
	have.Description, have.Subjects = want.Description, want.Subjects
	have.Retention, have.Storage, have.Replicas = want.Retention, want.Storage, want.Replicas
	have.Discard, have.DiscardNewPerSubject, have.MaxMsgsPerSubject = want.Discard, want.DiscardNewPerSubject,
		want.MaxMsgsPerSubject
	have.MaxMsgs, have.MaxBytes = want.MaxMsgs, want.MaxBytes
	return have
}

// streamConfig keeps one message a subject: what is queued or being worked on is not queued again.
func (q *Queue) streamConfig() jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:                 q.cfg.Stream,
		Description:          "material requests that wait for a worker",
		Subjects:             []string{q.subjects()},
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
		Durable:       consumerName,
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
