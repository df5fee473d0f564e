package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue"
	_ "github.com/supplyhub/supplyhub/internal/queue/embedded" // the embedded default
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
	"github.com/supplyhub/supplyhub/internal/round"
)

const (
	consumerURL   = "QUEUE_TEST_CONSUMER_URL"
	workerSubject = "mr.s1.killed"
)

// TestMain lets a test start this binary again as a worker that takes one message, says so and hangs.
func TestMain(m *testing.M) {
	if url := os.Getenv(consumerURL); url != "" {
		hangingWorker(url)
	}
	os.Exit(m.Run())
}

func hangingWorker(url string) {
	q, err := queue.Open(context.Background(),
		queue.Config{URL: url, Log: slog.New(slog.DiscardHandler), AckWait: 2 * time.Second})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	_ = q.Consume(context.Background(), 1, first, func(_ context.Context, m queue.Message) error {
		fmt.Println(m.Subject)
		select {}
	})
}

func open(tb testing.TB, cfg queue.Config) *queue.Queue {
	tb.Helper()
	cfg.Log = slog.New(slog.DiscardHandler)
	q, err := queue.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(q.Close)
	return q
}

// stacks runs fn on a server inside the process and on one outside.
func stacks(t *testing.T, fn func(t *testing.T, cfg queue.Config)) {
	t.Helper()
	t.Run("embedded", func(t *testing.T) {
		t.Parallel()
		fn(t, queue.Config{Dir: t.TempDir()})
	})
	t.Run("external", func(t *testing.T) {
		t.Parallel()
		fn(t, queue.Config{URL: queuetest.New(t).URL()})
	})
}

func first() int { return 0 }

// consume handles messages until the test or the returned function ends it.
func consume(tb testing.TB, q *queue.Queue, concurrency int,
	handle func(context.Context, queue.Message) error) (stop func()) {
	tb.Helper()
	return consumeInTurn(tb, q, concurrency, first, handle)
}

func consumeInTurn(tb testing.TB, q *queue.Queue, concurrency int, turn func() int,
	handle func(context.Context, queue.Message) error) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- q.Consume(ctx, concurrency, turn, handle) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("Consume: %v", err)
		}
	})
	tb.Cleanup(stop)
	return stop
}

// collector counts messages by subject.
type collector struct {
	mu       sync.Mutex
	received map[string]int
	last     queue.Message
}

func (c *collector) handle(_ context.Context, m queue.Message) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.received == nil {
		c.received = map[string]int{}
	}
	c.received[m.Subject]++
	c.last = m
	return nil
}

func (c *collector) count(subject string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received[subject]
}

func (c *collector) subjects() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.received)
}

// ready waits until stream and consumer are there.
func ready(tb testing.TB, q *queue.Queue) {
	tb.Helper()
	wait.Until(tb, "stream and consumer are there", func() bool {
		_, err := q.Lag(tb.Context())
		return err == nil
	})
}

func lag(tb testing.TB, q *queue.Queue) uint64 {
	tb.Helper()
	n, err := q.Lag(tb.Context())
	if err != nil {
		return 1 << 60 // not there yet
	}
	return n
}

func publishes(tb testing.TB, r *prometheus.Registry, outcome string) int {
	tb.Helper()
	families, err := r.Gather()
	if err != nil {
		tb.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "supplyhub_queue_publishes_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			if metric.GetLabel()[0].GetValue() == outcome {
				return int(metric.GetCounter().GetValue())
			}
		}
	}
	tb.Fatalf("no counter for outcome %q", outcome)
	return 0
}

func TestConsume_gets_what_was_published(t *testing.T) {
	t.Parallel()
	stacks(t, func(t *testing.T, cfg queue.Config) {
		q := open(t, cfg)
		ready(t, q)
		var c collector
		consume(t, q, 4, c.handle)
		q.Publish("mr.s1.-42", []byte("a\nb\n"))
		wait.Until(t, "the message arrives", func() bool { return c.count("mr.s1.-42") == 1 })
		if diff := cmp.Diff(queue.Message{Subject: "mr.s1.-42", Body: []byte("a\nb\n"), Deliveries: 1}, c.last); diff != "" {
			t.Errorf("message (-want +got):\n%s", diff)
		}
		wait.Until(t, "the message is acknowledged", func() bool { return lag(t, q) == 0 })
	})
}

func TestPublish_keeps_one_message_a_subject_while_it_is_queued_or_worked_on(t *testing.T) {
	t.Parallel()
	stacks(t, func(t *testing.T, cfg queue.Config) {
		registry := prometheus.NewRegistry()
		cfg.Registerer = registry
		q := open(t, cfg)
		ready(t, q)
		duplicates := publishes(t, registry, "duplicate")
		for range 100 {
			q.Publish("mr.s1.1", nil)
		}
		wait.Until(t, "99 are refused", func() bool { return publishes(t, registry, "duplicate") == duplicates+99 })
		working, finish := make(chan struct{}), make(chan struct{})
		var calls atomic.Int32
		consume(t, q, 4, func(context.Context, queue.Message) error {
			if calls.Add(1) == 1 {
				close(working)
				<-finish
			}
			return nil
		})
		<-working
		q.Publish("mr.s1.1", nil)
		wait.Until(t, "one more is refused while the first is worked on",
			func() bool { return publishes(t, registry, "duplicate") == duplicates+100 })
		close(finish)
		wait.Until(t, "the queue is empty", func() bool { return lag(t, q) == 0 })
		if n := calls.Load(); n != 1 {
			t.Errorf("worked %d times, want once", n)
		}
		q.Publish("mr.s1.1", nil)
		wait.Until(t, "after that it is queued again", func() bool { return calls.Load() == 2 })
	})
}

func TestBacklog_is_the_first_message_that_is_not_done_and_how_many_there_are(t *testing.T) {
	t.Parallel()
	stacks(t, func(t *testing.T, cfg queue.Config) {
		q := open(t, cfg)
		ready(t, q)
		backlog := func() round.Backlog {
			b, err := q.Backlog(t.Context(), allWork)
			if err != nil {
				t.Fatal(err)
			}
			return b
		}
		if b := backlog(); b.First != "" || b.Length != 0 || b.Store == 0 {
			t.Fatalf("an empty queue holds %+v", b)
		}
		for i, subject := range []string{"mr.work.1", "mr.work.2"} {
			q.Publish(subject, nil)
			wait.Until(t, subject+" is queued", func() bool { return lag(t, q) == uint64(i+1) })
		}
		if b := backlog(); b.First != "mr.work.1" || b.Length != 2 {
			t.Errorf("it holds %+v", b)
		}
		release, taken := make(chan struct{}), make(chan struct{})
		consume(t, q, 1, func(_ context.Context, m queue.Message) error {
			if m.Subject == "mr.work.2" {
				close(taken)
				<-release
			}
			return nil
		})
		<-taken
		wait.Until(t, "the first is done", func() bool { return backlog().First == "mr.work.2" })
		close(release)
		wait.Until(t, "all is done", func() bool { return backlog().Length == 0 })
	})
}

func TestConsume_brings_failed_work_back(t *testing.T) {
	t.Parallel()
	q := open(t, queue.Config{Dir: t.TempDir()})
	ready(t, q)
	seen := make(chan int, 10)
	consume(t, q, 1, func(_ context.Context, m queue.Message) error {
		seen <- m.Deliveries
		switch m.Deliveries {
		case 1:
			return errors.New("not now")
		case 2:
			panic("a defect")
		default:
			return nil
		}
	})
	q.Publish("mr.s1.1", nil)
	for want := 1; want <= 3; want++ {
		if got := <-seen; got != want {
			t.Fatalf("delivery %d, want %d", got, want)
		}
	}
	wait.Until(t, "the queue is empty", func() bool { return lag(t, q) == 0 })
}

func TestConsume_gives_the_work_of_a_killed_worker_to_another(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	q := open(t, queue.Config{URL: server.URL(), AckWait: 2 * time.Second})
	ready(t, q)
	q.Publish(workerSubject, nil)

	worker := exec.Command(os.Args[0])
	worker.Env = append(os.Environ(), consumerURL+"="+server.URL())
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	said := make([]byte, len(workerSubject)+1)
	if _, err := out.Read(said); err != nil || !strings.HasPrefix(string(said), workerSubject) {
		t.Fatalf("the worker said %q, %v", said, err)
	}
	if err := worker.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()

	var c collector
	consume(t, q, 1, c.handle)
	wait.Until(t, "another worker gets the message", func() bool { return c.count(workerSubject) == 1 })
	if c.last.Deliveries < 2 {
		t.Errorf("delivery %d, want a second one", c.last.Deliveries)
	}
}

func TestConsume_keeps_work_that_lasts_longer_than_AckWait(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	const ackWait = time.Second
	q := open(t, queue.Config{URL: server.URL(), AckWait: ackWait})
	other := open(t, queue.Config{URL: server.URL(), AckWait: ackWait})
	ready(t, q)
	var calls atomic.Int32
	slow := func(context.Context, queue.Message) error {
		calls.Add(1)
		<-time.After(3 * ackWait) // the time itself is what is tested
		return nil
	}
	consume(t, q, 2, slow)
	consume(t, other, 2, slow)
	q.Publish("mr.s1.1", nil)
	wait.Until(t, "the work begins", func() bool { return calls.Load() > 0 })
	wait.Until(t, "the work is done", func() bool { return lag(t, q) == 0 })
	if n := calls.Load(); n != 1 {
		t.Errorf("worked %d times, want once", n)
	}
}

func TestConsume_pulls_no_more_than_it_can_work_on(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	busy, idle := open(t, queue.Config{URL: server.URL()}), open(t, queue.Config{URL: server.URL()})
	ready(t, busy)
	release := make(chan struct{})
	var held atomic.Int32
	stopBusy := consume(t, busy, 3, func(context.Context, queue.Message) error {
		held.Add(1)
		<-release
		return nil
	})
	for i := range 50 {
		busy.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
	}
	wait.Until(t, "the busy worker is full", func() bool { return held.Load() == 3 })
	var c collector
	consume(t, idle, 3, c.handle)
	wait.Until(t, "the other worker gets everything else", func() bool { return c.subjects() == 47 })
	close(release)
	stopBusy()
	wait.Until(t, "the queue is empty", func() bool { return lag(t, busy) == 0 })
}

func TestConsume_is_shared_by_two_workers_without_doubling(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	cfg := queue.Config{URL: server.URL(), AckWait: time.Minute} // on a busy machine too, none comes back
	a, b := open(t, cfg), open(t, cfg)
	ready(t, a)
	// half of what may be unacknowledged at once: Publish drops what would have to wait for long
	const n, together = 2000, 250
	var all collector
	var fromA, fromB atomic.Int32
	// closed when each has got its first: until then neither finishes, however slow the other is
	both := make(chan struct{})
	met := sync.OnceFunc(func() { close(both) })
	share := func(own, other *atomic.Int32) func(context.Context, queue.Message) error {
		return func(ctx context.Context, m queue.Message) error {
			if own.Add(1); other.Load() > 0 {
				met()
			}
			<-both
			return all.handle(ctx, m)
		}
	}
	consume(t, a, 8, share(&fromA, &fromB))
	consume(t, b, 8, share(&fromB, &fromA))
	for i := range n {
		a.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
		if sent := i + 1; sent%together == 0 {
			wait.Until(t, "all messages are worked on", func() bool { return all.subjects() == sent })
		}
	}
	wait.Until(t, "the queue is empty", func() bool { return lag(t, a) == 0 })
	if total := fromA.Load() + fromB.Load(); total != n {
		t.Errorf("%d deliveries of %d messages", total, n)
	}
	if fromA.Load() == 0 || fromB.Load() == 0 {
		t.Errorf("shares %d and %d: one worker got nothing", fromA.Load(), fromB.Load())
	}
}

func TestConsume_ends_after_the_work_under_way(t *testing.T) {
	t.Parallel()
	stacks(t, func(t *testing.T, cfg queue.Config) {
		q := open(t, cfg)
		ready(t, q)
		working, finish := make(chan struct{}), make(chan struct{})
		var finished atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			ended <- q.Consume(ctx, 1, first, func(ctx context.Context, _ queue.Message) error {
				close(working)
				<-finish
				if ctx.Err() != nil {
					t.Error("the work was cancelled")
				}
				finished.Store(true)
				return nil
			})
		}()
		q.Publish("mr.s1.1", nil)
		<-working
		cancel()
		select {
		case <-ended:
			t.Fatal("Consume ended before its work")
		default:
		}
		close(finish)
		if err := <-ended; err != nil || !finished.Load() {
			t.Errorf("Consume = %v, work finished: %t", err, finished.Load())
		}
		wait.Until(t, "the work is acknowledged", func() bool { return lag(t, q) == 0 })
	})
}

func TestConsume_loses_nothing_when_it_ends_in_the_middle(t *testing.T) {
	t.Parallel()
	// No message comes back because it was not acknowledged in time.
	q := open(t, queue.Config{URL: queuetest.New(t).URL(), AckWait: 2 * wait.Limit})
	ready(t, q)
	const n = 500 // so many may be unacknowledged at once: Publish drops what would have to wait for long
	var c collector
	publish := make(chan struct{})
	go func() {
		defer close(publish)
		for i := range n {
			q.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
		}
	}()
	for range 5 {
		before := c.subjects()
		stop := consume(t, q, 16, c.handle)
		wait.Until(t, "some messages are worked on", func() bool { return c.subjects() > before || c.subjects() == n })
		stop()
	}
	<-publish
	consume(t, q, 16, c.handle)
	wait.Until(t, "all messages are worked on", func() bool { return c.subjects() == n })
}

func TestPool_rejects_a_concurrency_below_one(t *testing.T) {
	t.Parallel()
	q := open(t, queue.Config{Dir: t.TempDir()})
	if err := q.Consume(t.Context(), 0, first, func(context.Context, queue.Message) error { return nil }); err == nil {
		t.Error("Consume with concurrency 0 succeeded")
	}
}

func TestPublish_refuses_what_is_not_a_subject(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	q := open(t, queue.Config{Dir: t.TempDir(), Registerer: registry})
	for i, subject := range []string{"", "mr.*", "mr.>", "mr.a b", "mr..1", ".mr", "mr.", "mr.\r\nPUB x 0"} {
		q.Publish(subject, nil)
		if got := publishes(t, registry, "failed"); got != i+1 {
			t.Errorf("%q was not refused", subject)
		}
	}
}

func TestLag_counts_what_waits_and_what_is_worked_on(t *testing.T) {
	t.Parallel()
	q := open(t, queue.Config{Dir: t.TempDir()})
	ready(t, q)
	for i := range 3 {
		q.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
	}
	wait.Until(t, "three wait", func() bool { return lag(t, q) == 3 })
	working, finish := make(chan struct{}, 3), make(chan struct{})
	consume(t, q, 1, func(context.Context, queue.Message) error {
		working <- struct{}{}
		<-finish
		return nil
	})
	<-working
	if n := lag(t, q); n != 3 {
		t.Errorf("lag %d while one of three is worked on, want 3", n)
	}
	close(finish)
	wait.Until(t, "none is left", func() bool { return lag(t, q) == 0 })
}

func TestMetrics_are_registered(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	q := open(t, queue.Config{Dir: t.TempDir(), Registerer: registry})
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, family := range families {
		names = append(names, family.GetName())
	}
	want := []string{"supplyhub_queue_connected", "supplyhub_queue_deliveries_total", "supplyhub_queue_messages",
		"supplyhub_queue_publishes_total"}
	if !slices.Equal(names, want) {
		t.Errorf("metrics %v, want %v", names, want)
	}
	if !q.Connected() || families[0].GetMetric()[0].GetGauge().GetValue() != 1 {
		t.Error("an embedded queue is not connected")
	}
}

func deleteStream(tb testing.TB, url string) {
	tb.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		tb.Fatal(err)
	}
	defer nc.Close()
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	if err := js.DeleteStream(tb.Context(), "MR"); err != nil {
		tb.Fatal(err)
	}
}
