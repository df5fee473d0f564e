package queue_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

// atOnce is far above what a call that does not wait needs, and far below any timeout behind it.
const atOnce = 500 * time.Millisecond

func TestOpen_succeeds_while_the_server_is_away(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	server.Stop()
	q := open(t, queue.Config{URL: server.URL()})
	if q.Connected() {
		t.Fatal("connected to a server that is away")
	}
	var c collector
	consume(t, q, 1, c.handle)
	server.Restart()
	wait.Until(t, "it works once the server is there", func() bool {
		q.Publish("mr.s1.1", nil)
		return c.count("mr.s1.1") > 0
	})
}

func TestQueue_survives_a_restart_of_the_server(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	q := open(t, queue.Config{URL: server.URL()})
	ready(t, q)
	for i := range 10 {
		q.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
	}
	wait.Until(t, "ten are queued", func() bool { return lag(t, q) == 10 })
	server.Restart()
	var c collector
	consume(t, q, 2, c.handle)
	wait.Until(t, "all are worked on after the restart", func() bool { return c.subjects() == 10 })
}

func TestIdle_while_nothing_comes_and_nothing_is_worked_on(t *testing.T) {
	t.Parallel()
	q := open(t, queue.Config{Dir: t.TempDir()})
	ready(t, q)
	if !q.Idle() {
		t.Error("a queue to which nothing came is not idle")
	}
	working, finish := make(chan struct{}), make(chan struct{})
	consume(t, q, 1, func(context.Context, queue.Message) error {
		close(working)
		<-finish
		return nil
	})
	q.Publish("mr.s1.1", nil)
	<-working
	for range 2 { // to ask changes nothing
		if q.Idle() {
			t.Error("it is idle while a message is worked on")
		}
	}
	close(finish)
	wait.Until(t, "it is idle again", q.Idle)
	if !q.Idle() {
		t.Error("it is not idle, though nothing came since")
	}
}

func TestPublish_returns_at_once(t *testing.T) {
	t.Parallel()
	t.Run("while the server is away", func(t *testing.T) {
		t.Parallel()
		server := queuetest.New(t)
		registry := prometheus.NewRegistry()
		q := open(t, queue.Config{URL: server.URL(), Registerer: registry})
		ready(t, q)
		server.Stop()
		wait.Until(t, "the connection is lost", func() bool { return !q.Connected() })
		before := publishes(t, registry, "dropped")
		publishMany(t, q, 20_000)
		if got := publishes(t, registry, "dropped") - before; got != 20_000 {
			t.Errorf("%d of 20000 counted as dropped", got)
		}
	})
	t.Run("while the server no longer reads", func(t *testing.T) {
		t.Parallel()
		server := queuetest.New(t)
		proxy := newStallingProxy(t, strings.TrimPrefix(server.URL(), "nats://"))
		registry := prometheus.NewRegistry()
		q := open(t, queue.Config{URL: "nats://" + proxy.address(), Registerer: registry})
		ready(t, q)
		proxy.stall()
		publishMany(t, q, 50_000)
		wait.Until(t, "the rest is dropped", func() bool { return publishes(t, registry, "dropped") > 0 })
	})
}

func publishMany(t *testing.T, q *queue.Queue, n int) {
	t.Helper()
	var longest time.Duration
	for i := range n {
		start := time.Now()
		q.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
		longest = max(longest, time.Since(start))
	}
	if longest > atOnce {
		t.Errorf("the longest publish took %s", longest)
	}
}

// stallingProxy passes a connection through until it has to stop reading, as a frozen server does.
type stallingProxy struct {
	listener net.Listener
	target   string
	stalled  chan struct{}
}

func newStallingProxy(t *testing.T, target string) *stallingProxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &stallingProxy{listener: l, target: target, stalled: make(chan struct{})}
	t.Cleanup(func() { l.Close() })
	go p.serve()
	return p
}

func (p *stallingProxy) address() string { return p.listener.Addr().String() }
func (p *stallingProxy) stall()          { close(p.stalled) }

func (p *stallingProxy) serve() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			return
		}
		go p.pass(client, server)
		go p.pass(server, client)
	}
}

func (p *stallingProxy) pass(from, to net.Conn) {
	buffer := make([]byte, 4096)
	for {
		n, err := from.Read(buffer)
		select {
		case <-p.stalled:
			return // both connections stay open, unread
		default:
		}
		if err != nil {
			to.Close()
			return
		}
		if _, err := to.Write(buffer[:n]); err != nil {
			return
		}
	}
}

// The publisher publishes again what it does not see done, as the sweeper does; nothing is restarted but the server.
func TestQueue_recovers_from_a_wiped_store_while_publishing_and_consuming(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	api, worker := open(t, queue.Config{URL: server.URL()}), open(t, queue.Config{URL: server.URL()})
	ready(t, api)
	var c collector
	consume(t, worker, 8, c.handle)
	const n = 300
	publish := func() {
		for i := range n {
			if subject := fmt.Sprintf("mr.s1.%d", i); c.count(subject) == 0 {
				api.Publish(subject, nil)
			}
		}
	}
	for i := range n / 2 {
		api.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
	}
	wait.Until(t, "some are worked on", func() bool { return c.subjects() > 0 })
	server.Wipe()
	wait.Until(t, "all are worked on after the wipe", func() bool {
		publish()
		return c.subjects() == n
	})
}

func TestQueue_recovers_from_a_stream_that_is_deleted_on_a_running_server(t *testing.T) {
	t.Parallel()
	stacks(t, func(t *testing.T, cfg queue.Config) {
		if cfg.URL == "" {
			t.Skip("only this process reaches the embedded server")
		}
		q := open(t, cfg)
		ready(t, q)
		var c collector
		consume(t, q, 2, c.handle)
		deleteStream(t, cfg.URL)
		wait.Until(t, "it works again", func() bool {
			q.Publish("mr.s1.1", nil)
			return c.count("mr.s1.1") > 0
		})
	})
}

func TestQueue_recovers_from_a_consumer_that_is_deleted_on_a_running_server(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	q := open(t, queue.Config{URL: server.URL()})
	ready(t, q)
	var c collector
	consume(t, q, 2, c.handle)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	if err := js.DeleteConsumer(t.Context(), "MR", "worker"); err != nil {
		t.Fatal(err)
	}
	q.Publish("mr.s1.1", nil)
	wait.Until(t, "it works again", func() bool { return c.count("mr.s1.1") == 1 })
}

func TestPublish_drops_when_the_queue_is_full_and_recovers_when_it_is_not(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	q := open(t, queue.Config{Dir: t.TempDir(), MaxBytes: 64 << 10, Registerer: registry})
	ready(t, q)
	before := publishes(t, registry, "failed")
	for i := range 5000 {
		q.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
	}
	wait.Until(t, "the rest is refused", func() bool { return publishes(t, registry, "failed") > before })
	var c collector
	consume(t, q, 16, c.handle)
	wait.Until(t, "the queue is empty", func() bool { return lag(t, q) == 0 })
	if c.subjects() == 0 || c.subjects() == 5000 {
		t.Errorf("%d of 5000 fit into 64 KiB", c.subjects())
	}
	wait.Until(t, "there is room again", func() bool {
		q.Publish("mr.s1.after", nil)
		return c.count("mr.s1.after") > 0
	})
}

func TestEmbedded_keeps_its_messages_over_a_restart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q := open(t, queue.Config{Dir: dir})
	ready(t, q)
	q.Publish("mr.s1.1", nil)
	wait.Until(t, "it is queued", func() bool { return lag(t, q) == 1 })
	q.Close()
	var c collector
	consume(t, open(t, queue.Config{Dir: dir}), 1, c.handle)
	wait.Until(t, "it is worked on after the restart", func() bool { return c.count("mr.s1.1") == 1 })
}

func TestEmbedded_refuses_a_directory_in_use(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open(t, queue.Config{Dir: dir})
	_, err := queue.Open(t.Context(), queue.Config{Dir: dir, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("the second queue on one directory: %v", err)
	}
}

func TestEmbedded_listens_nowhere(t *testing.T) {
	before := listeners(t)
	q := open(t, queue.Config{Dir: t.TempDir()})
	ready(t, q)
	if after := listeners(t); after != before {
		t.Errorf("%d listening sockets, %d before", after, before)
	}
}

// listeners counts this process's listening TCP sockets; the system lists those of its neighbours too.
func listeners(t *testing.T) (n int) {
	t.Helper()
	own := map[string]bool{}
	descriptors, err := filepath.Glob("/proc/self/fd/*")
	if err != nil || len(descriptors) == 0 {
		t.Skipf("this system does not list its sockets: %v", err)
	}
	for _, descriptor := range descriptors {
		if target, err := os.Readlink(descriptor); err == nil { // it may be closed meanwhile
			own[target] = true
		}
	}
	const state, inode = 3, 9 // columns
	for _, file := range []string{"/proc/self/net/tcp", "/proc/self/net/tcp6"} {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Skipf("this system does not list its sockets: %v", err)
		}
		for line := range strings.Lines(string(content)) {
			f := strings.Fields(line)
			if len(f) > inode && f[state] == "0A" && own["socket:["+f[inode]+"]"] {
				n++
			}
		}
	}
	return n
}

func TestClose_may_be_called_twice_and_Publish_after_it(t *testing.T) {
	t.Parallel()
	stacks(t, func(t *testing.T, cfg queue.Config) {
		q := open(t, cfg)
		q.Close()
		q.Close()
		q.Publish("mr.s1.1", nil)
		if q.Connected() {
			t.Error("connected after Close")
		}
	})
}

func TestClose_sends_what_was_published_before(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	other := open(t, queue.Config{URL: server.URL()})
	ready(t, other)
	q := open(t, queue.Config{URL: server.URL()})
	ready(t, q)
	const n = 500 // so many may be unacknowledged at once: Publish drops what would have to wait for long
	for i := range n {
		q.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
	}
	q.Close()
	wait.Until(t, "all are queued", func() bool { return lag(t, other) == n })
}

func BenchmarkPublishAndConsume(b *testing.B) {
	for name, cfg := range map[string]queue.Config{"embedded": {Dir: b.TempDir()},
		"external": {URL: queuetest.New(b).URL()}} {
		b.Run(name, func(b *testing.B) {
			q := open(b, cfg)
			ready(b, q)
			done := make(chan struct{}, 1<<16)
			stop := consume(b, q, 256, func(context.Context, queue.Message) error {
				done <- struct{}{}
				return nil
			})
			defer stop()
			const underWay = 4000 // less than the publish buffer
			i, received := 0, 0
			for b.Loop() {
				q.Publish(fmt.Sprintf("mr.bench.%d", i), nil)
				if i++; i-received >= underWay {
					<-done
					received++
				}
			}
			for ; received < i; received++ {
				<-done
			}
			b.ReportMetric(float64(i)/b.Elapsed().Seconds(), "msgs/s")
		})
	}
}
