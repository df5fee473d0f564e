package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	pullWait    = 500 * time.Millisecond // an idle pull's length, and so the longest wait at the end of Consume
	pullRetry   = 200 * time.Millisecond
	firstDelay  = 500 * time.Millisecond
	longestWait = 2 * time.Second // what lets work fail is unavailable: work that fails by itself is put off elsewhere
)

// Message is one piece of work. Deliveries counts from 1.
type Message struct {
	Subject    string
	Body       []byte
	Deliveries int
}

// Consume calls handle for every message, at most concurrency of them at once. nil means done; an error or a panic
// brings the message back after a delay that grows to 2 s; a worker that dies brings it back after AckWait. A message
// may come more than once. Consume returns when ctx ends and the calls under way, which do not see that end, are over.
func (q *Queue) Consume(ctx context.Context, concurrency int, handle func(context.Context, Message) error) error {
	if concurrency < 1 {
		return fmt.Errorf("consume: concurrency is %d, must be positive", concurrency)
	}
	w := &pool{queue: q, slots: make(chan struct{}, concurrency), handle: handle}
	for ctx.Err() == nil {
		consumer := q.consumer.Load()
		if consumer == nil {
			pause(ctx, pullRetry)
			continue
		}
		if err := w.pull(ctx, *consumer); err != nil {
			q.log.DebugContext(ctx, "pull failed", "error", err)
			q.lookAgain()
			pause(ctx, pullRetry)
		}
	}
	w.calls.Wait()
	return nil
}

// pool is a bounded set of calls under way.
type pool struct {
	queue  *Queue
	slots  chan struct{}
	calls  sync.WaitGroup
	handle func(context.Context, Message) error
}

// pull asks for as many messages as there are free slots, so that none waits here while its AckWait runs. It is not
// cut short by the end of ctx: a message that is on its way then would be lost until its AckWait is over.
func (p *pool) pull(ctx context.Context, consumer jetstream.Consumer) error {
	free := p.take(ctx)
	if free == 0 {
		return nil
	}
	batch, err := consumer.Fetch(free, jetstream.FetchMaxWait(pullWait))
	if err != nil {
		p.give(free)
		return err
	}
	for msg := range batch.Messages() {
		free--
		p.queue.received.Store(true)
		p.calls.Go(func() {
			defer p.give(1)
			if !p.work(context.WithoutCancel(ctx), msg) {
				pause(ctx, firstDelay) // so that an outage behind handle does not make us spin through the queue
			}
		})
	}
	p.give(free)
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, jetstream.ErrNoMessages) {
		return err
	}
	return nil
}

// take waits for a free slot and takes all there are; none when ctx ends.
func (p *pool) take(ctx context.Context) int {
	select {
	case <-ctx.Done():
		return 0
	case p.slots <- struct{}{}:
	}
	for n := 1; ; n++ {
		select {
		case p.slots <- struct{}{}:
		default:
			return n
		}
	}
}

func (p *pool) give(n int) {
	for range n {
		<-p.slots
	}
}

// work reports whether the message is done.
func (p *pool) work(ctx context.Context, msg jetstream.Msg) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	third := p.queue.cfg.AckWait / 3
	slow := time.AfterFunc(third, func() { keepInProgress(ctx, msg, third) })
	defer slow.Stop()

	m := Message{Subject: p.queue.inside(msg.Subject()), Body: msg.Data(), Deliveries: deliveries(msg)}
	failure := p.call(ctx, m)
	cancel()
	answer, count := msg.Ack, p.queue.metrics.done
	if failure != nil {
		answer, count = func() error { return msg.NakWithDelay(retryDelay(m.Deliveries)) }, p.queue.metrics.retried
		p.queue.log.WarnContext(ctx, "work failed, it comes back", "error", failure,
			"subject", m.Subject, "deliveries", m.Deliveries)
	}
	count.Inc()
	if err := answer(); err != nil {
		p.queue.log.DebugContext(ctx, "answer to the queue failed, the message comes back after a while", "error", err,
			"subject", m.Subject)
	}
	return failure == nil
}

// call is handle whose panic is an error.
func (p *pool) call(ctx context.Context, m Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	return p.handle(ctx, m)
}

// keepInProgress tells the server again and again that the message is being worked on, until ctx ends.
func keepInProgress(ctx context.Context, msg jetstream.Msg, every time.Duration) {
	for ctx.Err() == nil {
		_ = msg.InProgress() // failed: the message may come twice, which every handler stands
		pause(ctx, every)
	}
}

func deliveries(msg jetstream.Msg) int {
	meta, err := msg.Metadata()
	if err != nil {
		return 1
	}
	return int(meta.NumDelivered)
}

// retryDelay doubles from half a second to 2 s.
func retryDelay(deliveries int) time.Duration {
	return min(firstDelay<<min(max(deliveries-1, 0), 10), longestWait)
}
