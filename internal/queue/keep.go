package queue

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/supplyhub/supplyhub/internal/sleep"
)

// One goroutine looks once a second and makes the stream be as stream.go has it. All processes do so, whichever comes
// first; the others find what they want. Until that has succeeded once on a connection (ours), nothing is published and
// nothing read: the stream of that name may be another program's.

const (
	askTimeout = 3 * time.Second // of a question: none is answered whose connection is lost meanwhile
	lookEvery  = time.Second
	deletedFor = time.Second // until a stream that was deleted is made again

	installationKey = "supplyhub.installation" // in the stream's metadata
)

// reconcileLoop makes the stream whenever it is missing: a store that was wiped while everything runs comes back that
// way.
func (q *Queue) reconcileLoop(ctx context.Context) {
	for ; ctx.Err() == nil; sleep.For(ctx, lookEvery) {
		if q.Connected() {
			q.reconcile(ctx)
		}
	}
}

// reconcile tries once to have the stream as it should be, and keeps why it could not.
func (q *Queue) reconcile(ctx context.Context) {
	err := q.ensureStream(ctx)
	if err == nil {
		q.ours.Store(true)
		q.store.clear()
		if q.failing.Load() != 0 { // other messages may be held back until one is acknowledged
			q.Publish(probe, nil)
		}
		return
	}
	if ctx.Err() != nil {
		return
	}
	if _, stranger := errors.AsType[ForeignError](err); stranger { // neither take nor add to what is another's
		q.ours.Store(false)
	}
	if q.Connected() && q.lacking() == nil { // a permission that is lacking is in the log
		q.store.set(q.explain(err))
	}
}

// ensureStream finds or makes the stream and puts right what was changed of it: only what is missing or different, as
// the server is shared. A stream of another program or installation is refused; inside this process it can only be left
// by a database that is gone or by another version, and is made again.
func (q *Queue) ensureStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	have, err := q.askStream(ctx)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		return q.createStream(ctx)
	}
	if err != nil {
		return err
	}
	q.found = true
	if err := q.cfg.foreign(have); err != nil && q.embedded == nil {
		return err
	} else if err != nil {
		if err := q.js.DeleteStream(ctx, q.cfg.Stream); err != nil {
			return err
		}
		return q.createStream(ctx)
	}
	if have.Sealed {
		return q.cfg.sealed()
	}
	want := q.cfg.adjusted(have)
	if reflect.DeepEqual(have, want) {
		return nil
	}
	if _, err = q.js.UpdateStream(ctx, want); err == nil { // else it is tried again each second, and the reason is noted
		q.log.Warn("the queue's stream was not as it should be, it is put right", "stream", q.cfg.Stream)
	}
	return err
}

// askStream asks the server for the stream as it is.
func (q *Queue) askStream(ctx context.Context) (have jetstream.StreamConfig, err error) {
	stream, err := q.js.Stream(ctx, q.cfg.Stream)
	if err != nil {
		return have, err
	}
	info := stream.CachedInfo()
	return info.Config, q.cfg.leaderless(info)
}

// createStream makes the stream. Of two processes that do so at once, one takes what the other has made. Where a stream
// was deleted on a running server it waits a moment: its files are removed next to that, and one of the same name that
// is made at once may lose its own to it.
func (q *Queue) createStream(ctx context.Context) error {
	if q.found {
		q.found = false
		sleep.For(ctx, deletedFor)
	}
	_, err := q.js.CreateStream(ctx, q.cfg.streamConfig())
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil // another process, configured differently, was faster; the next look finds how
	}
	q.found = err == nil
	return err
}
