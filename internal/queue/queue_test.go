package queue_test

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue"
	_ "github.com/supplyhub/supplyhub/internal/queue/embedded" // the embedded default
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

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

// consume takes the messages under the subjects until the test or the returned function ends it.
func consume(tb testing.TB, q *queue.Queue, take func(queue.Message), subjects ...string) (stop func()) {
	tb.Helper()
	return follow(tb, q, func() []string { return subjects }, nil, take)
}

func follow(tb testing.TB, q *queue.Queue, subjects func() []string, changed <-chan struct{},
	take func(queue.Message)) (stop func()) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		q.Consume(ctx, subjects, changed, take)
	}()
	stop = func() {
		cancel()
		<-ended
	}
	tb.Cleanup(stop)
	return stop
}

// collector counts messages by subject and body.
type collector struct {
	mu       sync.Mutex
	received map[string]int
	order    []string // bodies
}

func (c *collector) take(m queue.Message) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.received == nil {
		c.received = map[string]int{}
	}
	c.received[m.Subject+" "+string(m.Body)]++
	c.order = append(c.order, string(m.Body))
}

func (c *collector) count(subject, body string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.received[subject+" "+body]
}

func (c *collector) bodies() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.order)
}

// beginning returns the bodies that begin so, in their order.
func (c *collector) beginning(text string) []string {
	return slices.DeleteFunc(c.bodies(), func(body string) bool { return !strings.HasPrefix(body, text) })
}

// ready waits until messages can be published.
func ready(tb testing.TB, q *queue.Queue) {
	tb.Helper()
	wait.Until(tb, "the stream is there", func() bool { return q.Health() == nil })
}

// arrives publishes until a message comes to the collector: its consumer may not be there yet.
func arrives(tb testing.TB, by *queue.Queue, c *collector, subject string) {
	tb.Helper()
	body := rand.Text()
	wait.Until(tb, "a message arrives under "+subject, func() bool {
		by.Publish(subject, []byte(body))
		return c.count(subject, body) > 0
	})
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

func TestConsume_brings_what_is_published_under_its_subjects_in_that_order(t *testing.T) {
	t.Parallel()
	stacks(t, func(t *testing.T, cfg queue.Config) {
		q := open(t, cfg)
		ready(t, q)
		var other, c collector
		consume(t, q, other.take, "mr.work.3")
		arrives(t, q, &other, "mr.work.3")
		q.Publish("mr.work.3", []byte("before"))
		wait.Until(t, "the stream has it", func() bool { return other.count("mr.work.3", "before") == 1 })
		consume(t, q, c.take, "mr.work.3", "mr.work.4")
		arrives(t, q, &c, "mr.work.3")
		var want []string
		for i := range 100 { // fewer than may be under way at once
			q.Publish("mr.work.5", []byte("of another worker"))
			for _, subject := range []string{"mr.work.3", "mr.work.4"} {
				want = append(want, fmt.Sprintf("%s\n%d", subject, i))
				q.Publish(subject, []byte(want[len(want)-1]))
			}
		}
		wait.Until(t, "the last one is there", func() bool { return c.count("mr.work.4", want[len(want)-1]) == 1 })
		if diff := cmp.Diff(want, c.beginning("mr.work.")); diff != "" {
			t.Errorf("bodies (-want +got):\n%s", diff)
		}
		if c.count("mr.work.3", "before") > 0 {
			t.Error("what was published before it began came too")
		}
	})
}

func TestConsume_follows_its_subjects(t *testing.T) {
	t.Parallel()
	stacks(t, func(t *testing.T, cfg queue.Config) {
		q := open(t, cfg)
		ready(t, q)
		var all []string
		for shard := range 32 {
			all = append(all, fmt.Sprintf("mr.work.%d", shard))
		}
		var c collector
		var subjects atomic.Pointer[[]string]
		subjects.Store(&[]string{})
		changed := make(chan struct{}, 1)
		follow(t, q, func() []string { return *subjects.Load() }, changed, c.take)
		for i, list := range [][]string{{"mr.work.0"}, all, {}, {"mr.work.7", "mr.work.0", "mr.work.0"}, all[:31]} {
			subjects.Store(&list)
			changed <- struct{}{}
			for _, subject := range list {
				arrives(t, q, &c, subject)
			}
			if len(list) == 0 || len(list) == len(all) {
				continue
			}
			outside, body := all[31], fmt.Sprint(i)
			q.Publish(outside, []byte(body))
			arrives(t, q, &c, list[0]) // and with it all that was published before
			if c.count(outside, body) > 0 {
				t.Errorf("it brings %s to who asked for %v", outside, list)
			}
		}
	})
}

func TestConsume_brings_each_process_what_it_asked_for(t *testing.T) {
	t.Parallel()
	url := queuetest.New(t).URL()
	api, a, b := open(t, queue.Config{URL: url}), open(t, queue.Config{URL: url}), open(t, queue.Config{URL: url})
	ready(t, api)
	ready(t, a)
	ready(t, b)
	var ofA, ofB collector
	consume(t, a, ofA.take, "mr.work.1", "mr.work.2")
	consume(t, b, ofB.take, "mr.work.2", "mr.work.3")
	arrives(t, api, &ofA, "mr.work.1")
	arrives(t, api, &ofB, "mr.work.3")
	api.Publish("mr.work.2", []byte("of both")) // as while a shard moves
	wait.Until(t, "both have it", func() bool {
		return ofA.count("mr.work.2", "of both") == 1 && ofB.count("mr.work.2", "of both") == 1
	})
}

func TestConsume_that_has_returned_takes_nothing(t *testing.T) {
	t.Parallel()
	stacks(t, func(t *testing.T, cfg queue.Config) {
		q := open(t, cfg)
		ready(t, q)
		var c collector
		var taking atomic.Int32
		entered, leave := make(chan struct{}), make(chan struct{})
		stop := consume(t, q, func(m queue.Message) {
			taking.Add(1)
			if c.take(m); string(m.Body) == "slow" {
				close(entered)
				<-leave
			}
			taking.Add(-1)
		}, "mr.work.1")
		arrives(t, q, &c, "mr.work.1")
		q.Publish("mr.work.1", []byte("slow"))
		<-entered
		go close(leave)
		if stop(); taking.Load() != 0 {
			t.Error("it returned while a message was taken")
		}
		taken := len(c.bodies())
		var other collector
		consume(t, q, other.take, "mr.work.1")
		arrives(t, q, &other, "mr.work.1")
		if got := len(c.bodies()); got != taken {
			t.Errorf("%d messages came after it had returned", got-taken)
		}
	})
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
	want := []string{"supplyhub_queue_connected", "supplyhub_queue_healthy", "supplyhub_queue_publishes_total",
		"supplyhub_queue_received_total"}
	if !slices.Equal(names, want) {
		t.Errorf("metrics %v, want %v", names, want)
	}
	if !q.Connected() || families[0].GetMetric()[0].GetGauge().GetValue() != 1 {
		t.Error("an embedded queue is not connected")
	}
}

// operator is who changes things behind the service's back.
func operator(tb testing.TB, url string) jetstream.JetStream {
	tb.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		tb.Fatal(err)
	}
	return js
}

func deleteStream(tb testing.TB, url string) {
	tb.Helper()
	if err := operator(tb, url).DeleteStream(tb.Context(), "MR"); err != nil {
		tb.Fatal(err)
	}
}
