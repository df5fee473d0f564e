package queue_test

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	consume(t, q, c.take, "mr.work.1")
	server.Restart()
	arrives(t, q, &c, "mr.work.1")
}

// disturbances are what may happen to a stream and its consumers while processes publish and read.
var disturbances = map[string]func(t *testing.T, server *queuetest.Server){
	"the server restarts":     func(_ *testing.T, server *queuetest.Server) { server.Restart() },
	"its store is wiped":      func(_ *testing.T, server *queuetest.Server) { server.Wipe() },
	"the stream is deleted":   func(t *testing.T, server *queuetest.Server) { deleteStream(t, server.URL()) },
	"the consumer is deleted": func(t *testing.T, server *queuetest.Server) { deleteConsumers(t, server.URL()) },
}

func TestConsume_goes_on_after_a_disturbance(t *testing.T) {
	t.Parallel()
	for name, disturb := range disturbances {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := queuetest.New(t)
			api, worker := open(t, queue.Config{URL: server.URL()}), open(t, queue.Config{URL: server.URL()})
			ready(t, api)
			ready(t, worker)
			var c collector
			consume(t, worker, c.take, "mr.work.1", "mr.work.2")
			for range 20 { // the numbers of the stream are larger than those of one that is made again
				arrives(t, api, &c, "mr.work.1")
			}
			for range 3 {
				disturb(t, server)
				arrives(t, api, &c, "mr.work.2")
			}
			wait.Until(t, "both are well", func() bool { return api.Health() == nil && worker.Health() == nil })
		})
	}
}

func deleteConsumers(t *testing.T, url string) {
	t.Helper()
	js := operator(t, url)
	stream, err := js.Stream(t.Context(), "MR")
	if err != nil {
		t.Fatal(err)
	}
	names := stream.ConsumerNames(t.Context())
	for name := range names.Name() {
		if err := js.DeleteConsumer(t.Context(), "MR", name); err != nil {
			t.Fatal(err)
		}
	}
	if names.Err() != nil {
		t.Fatal(names.Err())
	}
}

func TestConsume_brings_later_what_was_published_while_it_was_cut_off(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	api, worker := open(t, queue.Config{URL: server.URL()}), open(t, queue.Config{URL: server.URL()})
	ready(t, api)
	ready(t, worker)
	var c collector
	consume(t, worker, c.take, "mr.work.1")
	arrives(t, api, &c, "mr.work.1")
	deleteConsumers(t, server.URL())
	var want []string
	for i := range 100 {
		want = append(want, fmt.Sprintf("number %d", i))
		api.Publish("mr.work.1", []byte(want[i]))
	}
	wait.Until(t, "the last one is there", func() bool { return c.count("mr.work.1", want[99]) > 0 })
	if diff := cmp.Diff(want, c.beginning("number ")); diff != "" {
		t.Errorf("bodies (-want +got):\n%s", diff)
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
		q.Publish("mr.work.1", fmt.Append(nil, i))
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

func TestPublish_into_a_full_stream_drops_the_oldest(t *testing.T) {
	t.Parallel()
	stacks(t, func(t *testing.T, cfg queue.Config) {
		cfg.MaxBytes = 64 << 10
		q := open(t, cfg)
		ready(t, q)
		var c collector
		consume(t, q, c.take, "mr.work.1")
		for range 100 {
			for range 20 { // of 4 KiB: together more than the stream may hold
				q.Publish("mr.work.2", make([]byte, 4<<10))
			}
			arrives(t, q, &c, "mr.work.1")
		}
		if err := q.Health(); err != nil {
			t.Error(err)
		}
	})
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
		q.Publish("mr.work.1", nil)
		if q.Connected() {
			t.Error("connected after Close")
		}
	})
}

func TestClose_sends_what_was_published_before(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	other, q := open(t, queue.Config{URL: server.URL()}), open(t, queue.Config{URL: server.URL()})
	ready(t, other)
	ready(t, q)
	var c collector
	consume(t, other, c.take, "mr.work.1")
	arrives(t, other, &c, "mr.work.1")
	const n = 500 // so many may be unacknowledged at once: Publish drops what would have to wait for long
	for i := range n {
		q.Publish("mr.work.1", fmt.Append(nil, i))
	}
	q.Close()
	wait.Until(t, "all arrive", func() bool { return c.count("mr.work.1", fmt.Sprint(n-1)) == 1 })
}

func BenchmarkPublishAndConsume(b *testing.B) {
	for name, cfg := range map[string]queue.Config{"embedded": {Dir: b.TempDir()},
		"external": {URL: queuetest.New(b).URL()}} {
		b.Run(name, func(b *testing.B) {
			q := open(b, cfg)
			ready(b, q)
			var c collector
			done := make(chan struct{}, 1<<16)
			stop := consume(b, q, func(m queue.Message) {
				if c.take(m); m.Subject == "mr.bench" {
					done <- struct{}{}
				}
			}, "mr.work.1", "mr.bench")
			defer stop()
			arrives(b, q, &c, "mr.work.1")
			const underWay = 4000 // less than the publish buffer
			i, received := 0, 0
			for b.Loop() {
				q.Publish("mr.bench", nil)
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
