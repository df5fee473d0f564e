package queue

import (
	"context"
	"errors"
	"fmt"
	"maps"
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

func (q *Queue) ensureStream(ctx context.Context) (jetstream.Stream, error) {
	stream, err := q.js.Stream(ctx, q.cfg.Stream)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		stream, err = q.createStream(ctx)
	}
	if err != nil {
		return nil, err
	}
	have := stream.CachedInfo().Config
	if err := q.foreign(have); err != nil && q.embedded == nil {
		return nil, err
	} else if err != nil { // only ours is in this process: it was left by a database that is gone
		if err := q.js.DeleteStream(ctx, q.cfg.Stream); err != nil {
			return nil, err
		}
		return q.createStream(ctx)
	}
	if have.Sealed {
		return nil, q.sealed()
	}
	want := q.adjusted(have)
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

func (q *Queue) createStream(ctx context.Context) (jetstream.Stream, error) {
	q.settleDeleted(ctx)
	stream, err := q.js.CreateStream(ctx, q.streamConfig())
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return q.js.Stream(ctx, q.cfg.Stream) // another process, configured differently, was faster
	}
	return stream, err
}

func (q *Queue) sealed() error {
	return fmt.Errorf("the stream %[1]s is sealed: delete it (nats stream rm %[1]s), it is made again", q.cfg.Stream)
}

// foreignError says whose the stream is that is not ours.
type foreignError struct{ text string }

func (e foreignError) Error() string { return e.text }

// foreign returns an error when the stream belongs to another program or to another installation of this one: what
// makes it a work queue cannot be changed, and messages under other subjects are not ours to drop. One that names no
// installation is ours: it was made by hand.
func (q *Queue) foreign(have jetstream.StreamConfig) error {
	want := q.streamConfig()
	program := func(what string, have, want any) error {
		return foreignError{fmt.Sprintf("the stream %s was made by another program: its %s, not %s; "+
			"choose another NATS_STREAM", q.cfg.Stream, fmt.Sprintf(what, have), want)}
	}
	owner := have.Metadata[installationKey]
	switch {
	case have.Retention != want.Retention:
		return program("retention is %s", have.Retention, want.Retention)
	case have.Storage != want.Storage:
		return program("storage is %s", have.Storage, want.Storage)
	case !slices.Equal(have.Subjects, want.Subjects):
		return program("subjects are %s", strings.Join(have.Subjects, ", "), strings.Join(want.Subjects, ", "))
	case owner != "" && q.cfg.Installation != "" && owner != q.cfg.Installation:
		return foreignError{fmt.Sprintf("the stream %[1]s belongs to installation %[2]s, and this is %[3]s: choose another "+
			"NATS_STREAM, or delete it (nats stream rm %[1]s) when that installation's database no longer exists",
			q.cfg.Stream, owner, q.cfg.Installation)}
	default:
		return nil
	}
}

// adjusted returns have with our values in it; what the server or its operator added stays.
func (q *Queue) adjusted(have jetstream.StreamConfig) jetstream.StreamConfig {
	want := q.streamConfig()
	have.Description, have.Subjects = want.Description, want.Subjects
	have.Retention, have.Storage, have.Replicas = want.Retention, want.Storage, want.Replicas
	have.Discard, have.DiscardNewPerSubject, have.MaxMsgsPerSubject = want.Discard, want.DiscardNewPerSubject,
		want.MaxMsgsPerSubject
	have.MaxMsgs, have.MaxBytes, have.MaxAge, have.MaxMsgSize = want.MaxMsgs, want.MaxBytes, want.MaxAge, want.MaxMsgSize
	have.NoAck, have.SubjectTransform, have.ConsumerLimits = want.NoAck, want.SubjectTransform, want.ConsumerLimits
	if q.cfg.Installation != "" {
		have.Metadata = maps.Clone(have.Metadata) // the server's own entries stay
		if have.Metadata == nil {
			have.Metadata = map[string]string{}
		}
		have.Metadata[installationKey] = q.cfg.Installation
	}
	return have
}

// streamConfig keeps one message a subject: what is queued or being worked on is not queued again.
func (q *Queue) streamConfig() jetstream.StreamConfig {
	c := jetstream.StreamConfig{
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
		MaxMsgSize:           -1,
		MaxBytes:             q.cfg.MaxBytes,
	}
	if q.cfg.Installation != "" {
		c.Metadata = map[string]string{installationKey: q.cfg.Installation}
	}
	return c
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
