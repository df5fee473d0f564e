package queue_test

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
	"github.com/supplyhub/supplyhub/internal/round"
)

const allWork = "mr.work.>"

// operator is who changes things behind the service's back.
func operator(t *testing.T, url string) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	return js
}

// consumerOf returns the consumer's configuration as the server has it; zero while there is none.
func consumerOf(t *testing.T, js jetstream.JetStream) (c jetstream.ConsumerConfig) {
	t.Helper()
	if consumer, err := js.Consumer(t.Context(), "MR", "worker"); err == nil {
		c = consumer.CachedInfo().Config
	}
	return c
}

// edit changes the consumer as far as the server lets it.
func edit(change func(*jetstream.ConsumerConfig)) func(*testing.T, jetstream.JetStream) {
	return func(t *testing.T, js jetstream.JetStream) {
		t.Helper()
		c := consumerOf(t, js)
		change(&c)
		if _, err := js.UpdateConsumer(t.Context(), "MR", c); err != nil {
			t.Fatal(err)
		}
	}
}

// replace puts another consumer in the place of our own.
func replace(change func(*jetstream.ConsumerConfig)) func(*testing.T, jetstream.JetStream) {
	return func(t *testing.T, js jetstream.JetStream) {
		t.Helper()
		c := consumerOf(t, js)
		if err := js.DeleteConsumer(t.Context(), "MR", "worker"); err != nil {
			t.Fatal(err)
		}
		change(&c)
		var err error
		if c.DeliverSubject != "" {
			_, err = js.CreatePushConsumer(t.Context(), "MR", c)
		} else {
			_, err = js.CreateConsumer(t.Context(), "MR", c)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestConsumer_that_was_changed_is_put_right(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*testing.T, jetstream.JetStream){
		"another filter": edit(func(c *jetstream.ConsumerConfig) { c.FilterSubject = "mr.zzz" }),
		"several filters": edit(func(c *jetstream.ConsumerConfig) {
			c.FilterSubjects = []string{"mr.zzz", "mr.yyy"}
		}),
		"one message at a time": edit(func(c *jetstream.ConsumerConfig) { c.MaxRequestBatch = 1 }),
		"no bodies":             edit(func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true }),
		"one delivery only": edit(func(c *jetstream.ConsumerConfig) {
			c.MaxDeliver, c.AckWait, c.MaxAckPending = 1, time.Hour, 1
		}),
		"an end when no worker asks": edit(func(c *jetstream.ConsumerConfig) { c.InactiveThreshold = time.Hour }),
		"few waiting pulls":          replace(func(c *jetstream.ConsumerConfig) { c.MaxWaiting = 1 }),
		"a slow replay": replace(func(c *jetstream.ConsumerConfig) {
			c.ReplayPolicy = jetstream.ReplayOriginalPolicy
		}),
		"a consumer that is pushed to": replace(func(c *jetstream.ConsumerConfig) {
			c.DeliverSubject, c.MaxWaiting = "elsewhere", 0
		}),
		"a pause": func(t *testing.T, js jetstream.JetStream) {
			t.Helper()
			if _, err := js.PauseConsumer(t.Context(), "MR", "worker", time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := queuetest.New(t)
			var log lines
			q, err := queue.Open(t.Context(), queue.Config{URL: server.URL(), Log: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(q.Close)
			ready(t, q)
			js := operator(t, server.URL())
			want := consumerOf(t, js)
			change(t, js)
			var c collector
			consume(t, q, 2, c.handle)
			wait.Until(t, "it is as it was", func() bool {
				have := consumerOf(t, js)
				paused := have.PauseUntil != nil && have.PauseUntil.After(time.Now())
				have.PauseUntil, have.Metadata = nil, want.Metadata
				return !paused && fmt.Sprint(have) == fmt.Sprint(want)
			})
			q.Publish("mr.work.1", []byte("body"))
			wait.Until(t, "work travels", func() bool { return c.count("mr.work.1") == 1 })
			if string(c.last.Body) != "body" {
				t.Errorf("its body is %q", c.last.Body)
			}
			wait.Until(t, "the log says so", func() bool { return log.count("level=WARN") > 0 })
		})
	}
}

func TestConsumer_is_put_right_with_the_rights_that_each_binary_has(t *testing.T) {
	t.Parallel()
	for _, user := range []string{"api", "worker"} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			server := queuetest.NewWithUsers(t, filepath.Join("..", "..", "deployments", "nats-users.conf"), "api", "worker")
			ready(t, open(t, queue.Config{URL: server.URLOf(user), Name: user}))
			nc, err := nats.Connect(server.URLOf("api"), nats.CustomInboxPrefix("_INBOX_api"))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			js, err := jetstream.New(nc)
			if err != nil {
				t.Fatal(err)
			}
			edit(func(c *jetstream.ConsumerConfig) { c.HeadersOnly = true })(t, js)
			wait.Until(t, "it has bodies again", func() bool {
				c := consumerOf(t, js)
				return c.Durable != "" && !c.HeadersOnly
			})
			if _, err := js.PauseConsumer(t.Context(), "MR", "worker", time.Now().Add(time.Hour)); err != nil {
				t.Fatal(err)
			}
			wait.Until(t, "it is resumed", func() bool {
				until := consumerOf(t, js).PauseUntil
				return until == nil || until.Before(time.Now())
			})
		})
	}
}

func TestStream_that_was_changed_is_put_right(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	q := open(t, queue.Config{URL: server.URL()})
	ready(t, q)
	js := operator(t, server.URL())
	stream, err := js.Stream(t.Context(), "MR")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxAge, config.MaxMsgSize, config.NoAck, config.MaxMsgs = time.Hour, 10, true, 1
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it is as it was", func() bool {
		s, err := js.Stream(t.Context(), "MR")
		if err != nil {
			return false
		}
		c := s.CachedInfo().Config
		return c.MaxAge == 0 && c.MaxMsgSize == -1 && !c.NoAck && c.MaxMsgs > 1
	})
}

func TestStream_that_was_deleted_is_made_again_a_moment_later(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	q := open(t, queue.Config{URL: server.URL()})
	ready(t, q)
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	asked, err := nc.SubscribeSync("$JS.API.STREAM.CREATE.>")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	deleted := time.Now()
	deleteStream(t, server.URL())
	q.Publish("mr.work.1", nil) // has no taker
	if _, err := asked.NextMsg(wait.Limit); err != nil {
		t.Fatal(err)
	}
	if after := time.Since(deleted); after < time.Second {
		t.Errorf("it is made again after %s, while its files may still be removed", after)
	}
	ready(t, q)
}

func TestBacklog_passes_by_what_the_consumer_is_past(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	q := open(t, queue.Config{URL: server.URL()})
	ready(t, q)
	js := operator(t, server.URL())
	q.Publish("mr.work.1", nil)
	wait.Until(t, "the first is queued", func() bool { return lag(t, q) == 1 })
	q.Close()
	queuetest.Orphan(t, js, "MR", "worker")
	again := open(t, queue.Config{URL: server.URL()})
	ready(t, again)
	backlog := func() round.Backlog {
		b, err := again.Backlog(t.Context(), allWork)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	if stream, err := js.Stream(t.Context(), "MR"); err != nil || stream.CachedInfo().State.Msgs != 1 {
		t.Fatalf("the stream holds %+v, %v", stream.CachedInfo().State, err)
	}
	if b := backlog(); b.First != "" || b.Length != 0 {
		t.Errorf("it holds %+v", b)
	}
	again.Publish("mr.other", nil)
	again.Publish("mr.work.3", nil)
	wait.Until(t, "they are queued", func() bool { return backlog().Length == 2 })
	if b := backlog(); b.First != "mr.work.3" || b.Length != 2 {
		t.Errorf("it holds %+v", b)
	}
}

// A queue that can be read but not written says so, and is well again when it takes work.
func TestHealth_of_a_queue_that_takes_nothing(t *testing.T) {
	t.Parallel()
	type fault struct {
		maxBytes int64
		make     func(t *testing.T, q *queue.Queue, js jetstream.JetStream)
		heal     func(t *testing.T, q *queue.Queue, js jetstream.JetStream)
		why      string
	}
	for name, f := range map[string]fault{
		"full": {64 << 10, func(_ *testing.T, q *queue.Queue, _ jetstream.JetStream) {
			for i := range 5000 {
				q.Publish(fmt.Sprintf("mr.work.%d", i), nil)
			}
		}, func(t *testing.T, q *queue.Queue, _ jetstream.JetStream) {
			var c collector
			consume(t, q, 16, c.handle)
		}, "full"},
		"sealed": {0, func(t *testing.T, _ *queue.Queue, js jetstream.JetStream) {
			stream, err := js.Stream(t.Context(), "MR")
			if err != nil {
				t.Fatal(err)
			}
			config := stream.CachedInfo().Config
			config.Sealed = true
			if _, err := js.UpdateStream(t.Context(), config); err != nil {
				t.Fatal(err)
			}
		}, func(t *testing.T, _ *queue.Queue, js jetstream.JetStream) {
			if err := js.DeleteStream(t.Context(), "MR"); err != nil {
				t.Fatal(err)
			}
		}, "sealed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := queuetest.New(t)
			var log lines
			cfg := queue.Config{URL: server.URL(), MaxBytes: f.maxBytes, Log: slog.New(slog.NewTextHandler(&log, nil))}
			q, err := queue.Open(t.Context(), cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(q.Close)
			ready(t, q)
			f.make(t, q, operator(t, server.URL()))
			q.Publish("mr.work.lost", nil)
			wait.Until(t, "it says why", func() bool { return q.Health() != nil && strings.Contains(q.Health().Error(), f.why) })
			if n := log.count("level=WARN"); n != 1 {
				t.Errorf("%d lines", n)
			}
			found, err := queue.Examine(t.Context(), cfg, false)
			if said := fmt.Sprint(err, found.Stream, found.Refused); !strings.Contains(said, f.why) {
				t.Errorf("the doctor says %s", said)
			}
			f.heal(t, q, operator(t, server.URL()))
			wait.Until(t, "it is well again, though nothing is published", func() bool { return q.Health() == nil })
		})
	}
}

func TestStream_of_another_installation_is_refused(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	js := operator(t, server.URL())
	rightful := open(t, queue.Config{URL: server.URL(), Installation: "first"})
	ready(t, rightful)
	var log lines
	other, err := queue.Open(t.Context(), queue.Config{URL: server.URL(), Installation: "second",
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(other.Close)
	const why = "the stream MR belongs to installation first, and this is second"
	wait.Until(t, "it says whose it is",
		func() bool { return other.Health() != nil && strings.Contains(other.Health().Error(), why) })
	if log.count(why) != 1 {
		t.Errorf("it is logged %d times", log.count(why))
	}
	var c collector
	consume(t, other, 2, c.handle)
	other.Publish("mr.work.7", nil)
	rightful.Publish("mr.work.1", nil)
	wait.Until(t, "it waits", func() bool { return lag(t, rightful) == 1 })
	if _, err := other.Lag(t.Context()); err == nil {
		t.Error("the length of another's queue is answered")
	}
	if _, err := other.Backlog(t.Context(), allWork); err == nil {
		t.Error("the backlog of another's queue is answered")
	}
	if found, err := queue.Examine(t.Context(), queue.Config{URL: server.URL(), Installation: "second",
		Log: slog.New(slog.DiscardHandler)}, true); err != nil || !strings.Contains(fmt.Sprint(found.Stream), why) {
		t.Errorf("the doctor says %v, %v", found.Stream, err)
	}
	var own collector
	consume(t, rightful, 2, own.handle)
	wait.Until(t, "its owner has it", func() bool { return own.count("mr.work.1") == 1 })
	if c.subjects()+own.count("mr.work.7") != 0 {
		t.Error("one has the other's work")
	}
	if err := js.DeleteStream(t.Context(), "MR"); err != nil {
		t.Fatal(err)
	}
	rightful.Close()
	wait.Until(t, "once it is gone the stream is the other one's", func() bool { return other.Health() == nil })
}

func TestStream_without_an_installation_is_taken_over(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	by := open(t, queue.Config{URL: server.URL()}) // as by hand
	ready(t, by)
	by.Close()
	q := open(t, queue.Config{URL: server.URL(), Installation: "ours"})
	wait.Until(t, "it is well", func() bool { return q.Health() == nil })
	stream, err := operator(t, server.URL()).Stream(t.Context(), "MR")
	if err != nil || stream.CachedInfo().Config.Metadata["supplyhub.installation"] != "ours" {
		t.Errorf("%+v, %v", stream.CachedInfo().Config.Metadata, err)
	}
}

// The store inside the process is of this process alone: messages that another database left there are gone with it.
func TestEmbedded_stream_of_a_database_that_is_gone_is_made_again(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	before := open(t, queue.Config{Dir: dir, Installation: "gone"})
	ready(t, before)
	before.Publish("mr.work.1", nil)
	wait.Until(t, "it is queued", func() bool { return lag(t, before) == 1 })
	before.Close()
	q := open(t, queue.Config{Dir: dir, Installation: "new"})
	wait.Until(t, "it is well", func() bool { return q.Health() == nil })
	if n := lag(t, q); n != 0 {
		t.Errorf("%d messages of the other one are in it", n)
	}
}

func TestPeers_of_two_installations_do_not_hear_each_other(t *testing.T) {
	t.Parallel()
	url := queuetest.New(t).URL()
	a, b := open(t, queue.Config{URL: url, Installation: "a"}), open(t, queue.Config{URL: url, Installation: "b"})
	wait.Until(t, "both are connected", func() bool { return a.Connected() && b.Connected() })
	heard := make(chan string, 10)
	for name, q := range map[string]*queue.Queue{"a": a, "b": b} {
		stop, err := q.Listen(1, func(body []byte) { heard <- name + string(body) })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(stop)
	}
	for range 3 { // the first may come before the other one's subscription
		a.Send(1, []byte(" of a"))
		b.Send(1, []byte(" of b"))
	}
	for range 4 {
		if got := <-heard; got != "a of a" && got != "b of b" {
			t.Errorf("%s", got)
		}
	}
}

func TestOpen_of_a_second_process_changes_nothing(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	cfg := queue.Config{URL: server.URL(), Installation: "ours", MaxBytes: 1 << 20}
	ready(t, open(t, cfg))
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	changed, err := nc.SubscribeSync("$JS.API.*.UPDATE.>")
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
	second, err := queue.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(second.Close)
	wait.Until(t, "it is well", func() bool { return second.Health() == nil })
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	if n, _, err := changed.Pending(); err != nil || n > 0 || log.count("level=WARN") > 0 {
		t.Errorf("%d updates, %d warnings, %v", n, log.count("level=WARN"), err)
	}
}
