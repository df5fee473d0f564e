package queue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const maxWaiting = 512 // pulls of all workers that wait; the server's own default

// ensureConsumer makes the consumer, or makes it again where it is not as it should be: what another program changed of it would
// keep work from the workers, and an update leaves the server's count of what waits wrong. What is worked on at that
// moment comes once more.
func (q *Queue) ensureConsumer(ctx context.Context, stream jetstream.Stream) (jetstream.Consumer, error) {
	consumer, err := stream.Consumer(ctx, consumerName)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		return q.createConsumer(ctx, stream)
	case err != nil && !errors.Is(err, jetstream.ErrNotPullConsumer):
		return nil, err
	case err == nil && q.unchanged(consumer.CachedInfo().Config):
		return consumer, q.resume(ctx, stream, consumer.CachedInfo())
	}
	q.log.Warn("the queue's consumer was changed and is made again", "consumer", consumerName)
	if err := stream.DeleteConsumer(ctx, consumerName); err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) {
		return nil, fmt.Errorf("the queue's consumer was changed and cannot be made again: %w", err)
	}
	q.consumer.Store(nil)
	pause(ctx, deletedFor)
	return q.createConsumer(ctx, stream)
}

func (q *Queue) createConsumer(ctx context.Context, stream jetstream.Stream) (jetstream.Consumer, error) {
	q.settleDeleted(ctx)
	consumer, err := stream.CreateConsumer(ctx, q.consumerConfig())
	if errors.Is(err, jetstream.ErrConsumerExists) {
		return stream.Consumer(ctx, consumerName) // another process, configured differently, was faster
	}
	if err != nil {
		return nil, err
	}
	made := consumer.CachedInfo().Config
	q.made.Store(&made)
	return consumer, nil
}

// unchanged reports whether the consumer is as we want it, or as the server made it when we did: it has limits of its
// own.
func (q *Queue) unchanged(have jetstream.ConsumerConfig) bool {
	if reflect.DeepEqual(have, q.adjustedConsumer(have)) {
		return true
	}
	made := q.made.Load()
	have.PauseUntil = nil
	return made != nil && reflect.DeepEqual(have, *made)
}

// resume ends a pause: it is no way to stop the service, as workers take what waits from the database.
func (q *Queue) resume(ctx context.Context, stream jetstream.Stream, have *jetstream.ConsumerInfo) error {
	if !have.Paused {
		return nil
	}
	until := "an unknown time"
	if at := have.Config.PauseUntil; at != nil {
		until = at.UTC().Format(time.RFC3339)
	}
	if _, err := stream.ResumeConsumer(ctx, consumerName); err != nil {
		return fmt.Errorf("the queue's consumer is paused until %s and cannot be resumed: %w", until, err)
	}
	q.log.Warn("the queue's consumer was paused and is resumed", "consumer", consumerName, "until", until)
	return nil
}

// adjustedConsumer returns have with our values in it; where it is kept, and what the server added, stays.
func (q *Queue) adjustedConsumer(have jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	want := q.consumerConfig()
	want.Name, want.Description, want.Metadata = have.Name, have.Description, have.Metadata
	want.Replicas, want.MemoryStorage, want.SampleFrequency = have.Replicas, have.MemoryStorage, have.SampleFrequency
	want.PauseUntil = have.PauseUntil // resume sees to it
	return want
}

func (q *Queue) consumerConfig() jetstream.ConsumerConfig {
	return jetstream.ConsumerConfig{
		Durable:       consumerName,
		AckPolicy:     jetstream.AckExplicitPolicy,
		AckWait:       q.cfg.AckWait,
		MaxDeliver:    -1,
		MaxWaiting:    maxWaiting,
		MaxAckPending: maxAckPending,
	}
}
