package queue

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// How a message is worked on: it is pulled when a call is free for it, so that AckWait runs only while it is worked
// on; a call that takes longer than a third of AckWait extends it again and again; the message is acknowledged when
// handle has returned nil, after its transaction. A worker that dies extends nothing: another one gets the message
// after AckWait. An acknowledgement that is lost brings it once more. So a message comes at least once, and work done
// twice is stored once.

const (
	pullWait    = 500 * time.Millisecond // an idle pull's length, and so the longest wait at the end of Consume
	pullRetry   = 200 * time.Millisecond
	firstDelay  = 500 * time.Millisecond
	longestWait = 2 * time.Second // a part is unavailable: work that fails by itself is put off elsewhere
)

// Message is one piece of work. Deliveries counts from 1.
type Message struct {
	Subject    string
	Body       []byte
	Deliveries int
}

// Of several processes the first takes all messages that it can work on, and the others what it leaves. Spread over
// all, each message would be a batch of its own, whose transaction costs as much as that of a full one.

// All others together ask what the first left each leftSoonest, so that they get it in full batches, and less and less
// often while they get nothing: with many processes these questions were half of what idle ones cost.
const (
	leftSoonest = 100 * time.Millisecond
	leftLatest  = 800 * time.Millisecond
)

// Consume calls handle for every message of the process's turn, at most concurrency of them at once: turn returns 0
// while this process is the first, and n while it is one of n that take what that one leaves. nil means done; an error
// or a panic brings the message back after a delay that grows to 2 s; a worker that dies brings it back after AckWait.
// A message may come more than once. Consume returns when ctx ends and the calls under way, which do not see that end,
// are over.
func (q *Queue) Consume(ctx context.Context, concurrency int, turn func() int,
	handle func(context.Context, Message) error) error {
	if concurrency < 1 {
		return fmt.Errorf("consume: concurrency is %d, must be positive", concurrency)
	}
	w := &pool{queue: q, concurrency: concurrency, ended: make(chan struct{}, 1), handle: handle, left: leftSoonest}
	for ctx.Err() == nil {
		consumer := q.consumer.Load()
		if consumer == nil || !q.ours.Load() {
			pause(ctx, pullRetry)
			continue
		}
		if err := w.pull(ctx, *consumer, turn()); err != nil {
			q.log.DebugContext(ctx, "pull failed", "error", err)
			q.triggerReconcile()
			pause(ctx, pullRetry)
		}
	}
	w.calls.Wait()
	return nil
}

// pool is a bounded set of calls under way.
type pool struct {
	queue       *Queue
	concurrency int
	busy        atomic.Int64  // calls under way
	ended       chan struct{} // holds a note when one of them ended
	calls       sync.WaitGroup
	handle      func(context.Context, Message) error
	left        time.Duration // until the first's leftovers are asked for again
}

// pull asks for as many messages as may be worked on, so that none waits here while its AckWait runs. It is not cut
// short by the end of ctx: a message that is on its way then would be lost until its AckWait is over.
func (p *pool) pull(ctx context.Context, consumer jetstream.Consumer, turn int) error {
	free := p.free(ctx)
	if free == 0 {
		return nil
	}
	batch, err := fetch(consumer, free, turn)
	if err != nil {
		return err
	}
	got := 0
	for msg := range batch.Messages() {
		got++
		p.begin(ctx, msg)
	}
	if err := batch.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, jetstream.ErrNoMessages) {
		return err
	}
	if got > 0 {
		p.left = leftSoonest
	}
	if turn > 0 && got < free { // there is no more
		pause(ctx, max(p.left, min(time.Duration(turn)*leftSoonest, leftLatest)))
		p.left = min(2*p.left, leftLatest)
	}
	return nil
}

// fetch asks for messages: the first worker waits for them at the server, the others take what is there.
func fetch(consumer jetstream.Consumer, most int, turn int) (jetstream.MessageBatch, error) {
	if turn == 0 {
		return consumer.Fetch(most, jetstream.FetchMaxWait(pullWait))
	}
	return consumer.FetchNoWait(most)
}

// free waits until a quarter of the calls that there may be are free, so that messages are pulled together, and returns
// how many are; none when ctx ends.
func (p *pool) free(ctx context.Context) int {
	for {
		if free := p.concurrency - int(p.busy.Load()); free >= max(p.concurrency/4, 1) {
			return free
		}
		select {
		case <-ctx.Done():
			return 0
		case <-p.ended:
		}
	}
}

// begin works on a message in a goroutine of its own. The end of ctx does not reach the work, which is finished, but
// ends the pause after a failure.
func (p *pool) begin(ctx context.Context, msg jetstream.Msg) {
	p.busy.Add(1)
	p.queue.working.Add(1)
	p.queue.came.Store(true)
	p.calls.Go(func() {
		defer p.end()
		if !p.work(context.WithoutCancel(ctx), msg) {
			pause(ctx, firstDelay) // so that an outage behind handle does not make us spin through the queue
		}
	})
}

// end frees a call and leaves a note for free, which may wait for it.
func (p *pool) end() {
	p.busy.Add(-1)
	p.queue.working.Add(-1)
	select {
	case p.ended <- struct{}{}:
	default:
	}
}

// work reports whether the message is done.
func (p *pool) work(ctx context.Context, msg jetstream.Msg) bool {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	third := p.queue.cfg.AckWait / 3
	slow := time.AfterFunc(third, func() { keepInProgress(ctx, msg, third) })
	defer slow.Stop()

	m := Message{Subject: p.queue.cfg.inside(msg.Subject()), Body: msg.Data(), Deliveries: deliveries(msg)}
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

// call runs handle and turns its panic into an error.
func (p *pool) call(ctx context.Context, m Message) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("panic: %v\n%s", r, debug.Stack())
		}
	}()
	if strings.HasPrefix(m.Subject, probes) {
		return nil
	}
	return p.handle(ctx, m)
}

// keepInProgress extends the message's deadline at the server until ctx ends.
func keepInProgress(ctx context.Context, msg jetstream.Msg, every time.Duration) {
	for ctx.Err() == nil {
		_ = msg.InProgress() // failed: the message may come twice, which every handler allows for
		pause(ctx, every)
	}
}

// deliveries returns how often the message was delivered, from 1.
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
