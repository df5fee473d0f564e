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

// The questions of `api doctor` to NATS. It must find out what only trying shows: a permission that is missing, a disk
// that is full. So it publishes a message that no worker reads, and as a worker it reads that itself.

// examineTimeout is to connect; a process waits less and tries again: a busy server is not a broken one.
const examineTimeout = 5 * time.Second

// Examination is what an operator wants to know of a queue that is reached. Nil errors mean that something is well.
type Examination struct {
	Server   string // its address, without credentials
	Version  string
	Plain    bool  // the connection leaves this machine, and not by TLS
	Stream   error // ErrAbsent: it is not there, and is made by the next process that starts
	Messages error // why the stream takes nothing, or a worker reads nothing
	Lacks    bool  // because the user may not do what the process does
}

// ErrAbsent says that the stream was not made yet.
var ErrAbsent = errors.New("it is not there yet")

// Examine connects once and looks at everything as the process of that configuration would. It makes no stream, and
// neither publishes work nor takes any. takes: the process is a worker.
func Examine(ctx context.Context, cfg Config, takes bool) (e Examination, err error) {
	q := newQueue(cfg)
	options, err := q.options()
	if err != nil {
		return e, err
	}
	options = append(options, nats.RetryOnFailedConnect(false), nats.NoReconnect(), nats.Timeout(examineTimeout))
	if q.nc, err = nats.Connect(q.cfg.URL, options...); err != nil {
		return e, fmt.Errorf("connect to NATS: %w", err)
	}
	defer q.nc.Close()
	e.Server, e.Version, e.Plain = q.nc.ConnectedUrlRedacted(), q.nc.ConnectedServerVersion(), q.plain()
	if q.js, err = jetstream.New(q.nc); err != nil {
		return e, err
	}
	if e.Stream = q.examineStream(ctx); e.Stream == nil {
		if e.Messages = q.examineMessages(ctx, takes); e.Messages != nil && q.lacking() != nil {
			e.Messages, e.Lacks = q.lacking(), true
		}
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

func (q *Queue) examineStream(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	have, err := q.askStream(ctx)
	switch {
	case errors.Is(err, jetstream.ErrStreamNotFound):
		return ErrAbsent
	case err != nil:
		return q.explain(err)
	}
	if err := q.cfg.foreign(have); err != nil {
		return err
	}
	if have.Sealed {
		return q.cfg.sealed()
	}
	return nil
}

// examineMessages publishes a message that no worker reads: only one that is stored shows that the stream takes any.
// A worker's message has to come back.
func (q *Queue) examineMessages(ctx context.Context, takes bool) (err error) {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	var consumer jetstream.Consumer
	if takes {
		if consumer, err = q.newConsumer(ctx, []string{probe}, time.Time{}); err != nil {
			return fmt.Errorf("the queue brings no message: %w", q.explain(err))
		}
	}
	_, err = q.js.PublishMsg(ctx, &nats.Msg{Subject: q.cfg.outside(probe)}, jetstream.WithRetryAttempts(0))
	if err != nil {
		return fmt.Errorf("the queue takes no message: %w", q.cfg.explainRefusal(err))
	}
	if takes {
		if _, err := consumer.Next(jetstream.FetchContext(ctx)); err != nil {
			return fmt.Errorf("the queue brings no message: %w", q.explain(err))
		}
	}
	return nil
}
