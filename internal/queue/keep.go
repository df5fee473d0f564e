package queue

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// One goroutine makes the stream and the consumer be as stream.go has them: when a connection was made, when a pull
// or a publish fails, and every so often. All processes do so, whichever comes first; the others find what they want.
// Until that has succeeded once on a connection (ours), nothing is published and nothing pulled: the stream of that
// name may be another program's.

const (
	ensureTimeout = 5 * time.Second
	ensureRetry   = time.Second
	lookEvery     = 10 * time.Second // without a reason
	deletedFor    = time.Second      // until a stream that was deleted is made again

	installationKey = "supplyhub.installation" // in the stream's metadata
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
		if q.reconcile(ctx); ctx.Err() != nil {
			return
		}
	}
}

// reconcile tries once to have stream and consumer as they should be, and keeps why it could not.
func (q *Queue) reconcile(ctx context.Context) {
	err := q.ensure(ctx)
	if err == nil {
		q.store.clear()
		if q.failing.Load() != 0 {
			q.probe()
			pause(ctx, ensureRetry)
		}
		return
	}
	if ctx.Err() != nil {
		return
	}
	if _, stranger := errors.AsType[foreignError](err); stranger { // neither take nor add to what is another's
		q.ours.Store(false)
	}
	if q.Connected() && q.lacking() == nil { // a permission that is lacking is in the log
		q.store.set(q.explain(err))
	}
	pause(ctx, ensureRetry)
	q.triggerReconcile()
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
	q.ours.Store(true)
	return nil
}

// ensureStream finds or makes the stream and puts right what was changed of it. A stream of another program or
// installation is refused; inside this process it can only be of a database that is gone, and is made again.
func (q *Queue) ensureStream(ctx context.Context) (jetstream.Stream, error) {
	stream, err := q.js.Stream(ctx, q.cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = q.createStream(ctx)
	}
	if err != nil {
		return nil, err
	}
	have := stream.CachedInfo().Config
	if err := q.cfg.foreign(have); err != nil && q.embedded == nil {
		return nil, err
	} else if err != nil { // only ours is in this process: it was left by a database that is gone
		if err := q.js.DeleteStream(ctx, q.cfg.Stream); err != nil {
			return nil, err
		}
		return q.createStream(ctx)
	}
	if have.Sealed {
		return nil, q.cfg.sealed()
	}
	want := q.cfg.adjusted(have)
	if reflect.DeepEqual(have, want) {
		return stream, nil
	}
	q.log.Warn("the queue's stream is not as it should be, it is put right", "stream", q.cfg.Stream)
	return q.js.UpdateStream(ctx, want)
}

// settleDeleted waits a moment where a stream or a consumer was deleted on a running server: its files are removed
// next to that, and one of the same name that is made at once may lose its own to it.
func (q *Queue) settleDeleted(ctx context.Context) {
	if q.consumer.Swap(nil) != nil {
		pause(ctx, deletedFor)
	}
}

// createStream makes the stream. Of two processes that do so at once, one takes what the other has made.
func (q *Queue) createStream(ctx context.Context) (jetstream.Stream, error) {
	q.settleDeleted(ctx)
	stream, err := q.js.CreateStream(ctx, q.cfg.streamConfig())
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return q.js.Stream(ctx, q.cfg.Stream) // another process, configured differently, was faster
	}
	return stream, err
}

// ensureConsumer makes the consumer, or makes it again where it is not as it should be: another program's change would
// keep work from the workers, and an update leaves the server's count of what waits wrong. Messages that are worked on
// at that moment come once more.
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

// createConsumer makes the consumer and remembers how the server made it: with limits of its own it may differ from
// what was asked for.
func (q *Queue) createConsumer(ctx context.Context, stream jetstream.Stream) (jetstream.Consumer, error) {
	q.settleDeleted(ctx)
	consumer, err := stream.CreateConsumer(ctx, q.cfg.consumerConfig())
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
	if reflect.DeepEqual(have, q.cfg.adjustedConsumer(have)) {
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

// pause waits for d or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	}
}
