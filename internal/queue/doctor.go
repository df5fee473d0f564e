package queue

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// The questions of `api doctor` to NATS. It makes nothing and takes no work, but it must find out what only trying
// shows: a permission that is missing, a stream that is full. It publishes a message of no meaning, which the next
// worker forgets, and pulls for one that cannot exist.

const (
	askTimeout     = 3 * time.Second
	examineTimeout = 5 * time.Second // to connect; a process waits less and tries again: a busy server is not a broken one
)

// Examination is what an operator wants to know of a queue that is reached. Nil errors mean that something is well.
type Examination struct {
	Server           string // its address, without credentials
	Plain            bool   // the connection leaves this machine, and not by TLS
	Stream, Consumer error  // ErrAbsent: it is not there, and is made by the next process that starts
	Rights           error  // to publish, or to take work
	Refused          error  // why the stream takes nothing; not looked at for a worker, which publishes nothing
	Lag              uint64 // messages that wait or are being worked on
	Waiting          int    // pulls of workers that wait for work
}

// ErrAbsent says that a stream or a consumer was not made yet.
var ErrAbsent = errors.New("it is not there yet")

// Examine connects once and looks at everything as the process of that configuration would. It makes nothing, and
// neither publishes work nor takes any. takes: the process is a worker.
func Examine(ctx context.Context, cfg Config, takes bool) (e Examination, err error) {
	cfg = cfg.withDefaults()
	q := &Queue{cfg: cfg, log: cfg.Log, missing: make(chan struct{}, 1)}
	for _, t := range []*trouble{&q.link, &q.store, &q.unread, &q.refused, &q.rights, &q.deaf, &q.peers} {
		t.log = cfg.Log
	}
	options, err := q.options()
	if err != nil {
		return e, err
	}
	options = append(options, nats.RetryOnFailedConnect(false), nats.NoReconnect(), nats.Timeout(examineTimeout))
	if q.nc, err = nats.Connect(cfg.URL, options...); err != nil {
		return e, fmt.Errorf("connect to NATS: %w", err)
	}
	defer q.nc.Close()
	e.Server, e.Plain = q.nc.ConnectedUrlRedacted(), q.plain()
	if q.js, err = jetstream.New(q.nc); err != nil {
		return e, err
	}
	q.examineStore(ctx, &e)
	if e.Stream != nil || e.Consumer != nil {
		return e, nil
	}
	if takes {
		e.Rights = q.mayTake(ctx)
	} else {
		e.Rights, e.Refused = q.mayPublish(ctx)
	}
	return e, nil
}

func (q *Queue) plain() bool {
	if _, err := q.nc.TLSConnectionState(); err == nil {
		return false
	}
	at, err := netip.ParseAddrPort(q.nc.ConnectedAddr())
	return err != nil || !at.Addr().Unmap().IsLoopback()
}

func (q *Queue) examineStore(ctx context.Context, e *Examination) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	stream, err := q.js.Stream(ctx, q.cfg.Stream)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		e.Stream = ErrAbsent
	case err != nil:
		e.Stream = q.explain(err)
	default:
		have := stream.CachedInfo().Config
		if e.Stream = q.cfg.foreign(have); e.Stream == nil && have.Sealed {
			e.Stream = q.cfg.sealed()
		}
	}
	if e.Stream != nil {
		return
	}
	consumer, err := q.js.Consumer(ctx, q.cfg.Stream, consumerName)
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound):
		e.Consumer = ErrAbsent
	case err != nil:
		e.Consumer = q.explain(err)
	default:
		info := consumer.CachedInfo()
		e.Lag, e.Waiting = waiting(info), info.NumWaiting
		e.Consumer = q.changed(info)
	}
}

// changed returns in what the consumer is not as the service makes it. A process that runs puts it right.
func (q *Queue) changed(info *jetstream.ConsumerInfo) error {
	switch {
	case info.Paused:
		return fmt.Errorf("it is paused until %s", info.Config.PauseUntil.UTC().Format(time.RFC3339))
	case !q.unchanged(info.Config):
		return errors.New("it is not as the service makes it")
	default:
		return nil
	}
}

// mayPublish publishes a message of no meaning, which the next worker takes and forgets: only one that is stored shows
// that the stream takes any.
func (q *Queue) mayPublish(ctx context.Context) (denied, refused error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	_, err := q.js.PublishMsg(ctx, &nats.Msg{Subject: q.cfg.outside(newProbe())}, jetstream.WithRetryAttempts(0))
	if err == nil {
		return nil, nil
	}
	if denied := q.lacking(); denied != nil {
		return denied, nil
	}
	return nil, q.cfg.explainRefusal(err)
}

// mayTake sends a pull for a message of one byte, which no message has: the server gives none and says why.
func (q *Queue) mayTake(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	answer, err := q.nc.RequestWithContext(ctx, "$JS.API.CONSUMER.MSG.NEXT."+q.cfg.Stream+"."+consumerName,
		[]byte(`{"batch":1,"no_wait":true,"max_bytes":1}`))
	switch {
	case err != nil:
		return q.explain(err)
	case answer.Header.Get("Status") == "":
		return errors.New("the server gave a message that was not asked for")
	default:
		return nil
	}
}
