package queue_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

func TestStream_that_was_changed_is_put_right(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	q := open(t, queue.Config{URL: server.URL(), Installation: "ours"})
	ready(t, q)
	js := operator(t, server.URL())
	stream, err := js.Stream(t.Context(), "MR")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.MaxAge, config.MaxMsgSize, config.NoAck, config.MaxMsgs = time.Hour, 10, true, 1
	config.Discard, config.MaxMsgsPerSubject, config.Duplicates = jetstream.DiscardNew, 1, time.Hour
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it is as it was", func() bool {
		s, err := js.Stream(t.Context(), "MR")
		if err != nil {
			return false
		}
		c := s.CachedInfo().Config
		return c.MaxAge == time.Minute && c.MaxMsgSize == -1 && !c.NoAck && c.MaxMsgs > 1 &&
			c.Discard == jetstream.DiscardOld && c.MaxMsgsPerSubject == -1
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

// A queue that takes nothing says so, and is well again when it takes messages, though nothing is published.
func TestHealth_of_a_queue_that_takes_nothing(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	js := operator(t, server.URL())
	var log lines
	cfg := queue.Config{URL: server.URL(), Installation: "ours", Log: slog.New(slog.NewTextHandler(&log, nil))}
	q, err := queue.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	ready(t, q)
	stream, err := js.Stream(t.Context(), "MR")
	if err != nil {
		t.Fatal(err)
	}
	config := stream.CachedInfo().Config
	config.Sealed = true
	if _, err := js.UpdateStream(t.Context(), config); err != nil {
		t.Fatal(err)
	}
	q.Publish("mr.work.1", nil)
	const why = "sealed"
	wait.Until(t, "it says why", func() bool { return q.Health() != nil && strings.Contains(q.Health().Error(), why) })
	if n := log.count("level=WARN"); n != 1 {
		t.Errorf("%d lines", n)
	}
	for _, takes := range []bool{false, true} {
		found, err := queue.Examine(t.Context(), cfg, takes)
		if said := fmt.Sprint(err, found.Stream, found.Messages); !strings.Contains(said, why) {
			t.Errorf("the doctor says %s", said)
		}
	}
	if err := js.DeleteStream(t.Context(), "MR"); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "it is well again", func() bool { return q.Health() == nil })
}

// A server that has no room for it refuses the change each time; the log says so once and never that it was made.
func TestStream_that_cannot_be_put_right_is_no_line_each_time(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	ready(t, open(t, queue.Config{URL: server.URL(), Installation: "ours"}))
	nc, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	asked, err := nc.SubscribeSync("$JS.API.STREAM.UPDATE.>")
	if err == nil {
		err = nc.Flush()
	}
	if err != nil {
		t.Fatal(err)
	}
	var log lines
	q, err := queue.Open(t.Context(), queue.Config{URL: server.URL(), Installation: "ours", MaxBytes: 1 << 60,
		Log: slog.New(slog.NewTextHandler(&log, nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	for range 3 {
		if _, err := asked.NextMsg(wait.Limit); err != nil {
			t.Fatal(err)
		}
	}
	wait.Until(t, "it says why", func() bool { return q.Health() != nil && log.count("NATS_MAX_BYTES") > 0 })
	if log.count("put right") != 0 || log.count("level=WARN") != 1 {
		t.Errorf("the log has %d warnings, %d of what was not done", log.count("level=WARN"), log.count("put right"))
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
	var ofOther, own collector
	consume(t, other, ofOther.take, "mr.work.1", "mr.work.7")
	consume(t, rightful, own.take, "mr.work.1", "mr.work.7")
	other.Publish("mr.work.7", nil)
	arrives(t, rightful, &own, "mr.work.1")
	if found, err := queue.Examine(t.Context(), queue.Config{URL: server.URL(), Installation: "second",
		Log: slog.New(slog.DiscardHandler)}, true); err != nil || !strings.Contains(fmt.Sprint(found.Stream), why) {
		t.Errorf("the doctor says %v, %v", found.Stream, err)
	}
	if own.count("mr.work.7", "") > 0 || len(ofOther.bodies()) > 0 {
		t.Error("one has the other's messages")
	}
	if err := js.DeleteStream(t.Context(), "MR"); err != nil {
		t.Fatal(err)
	}
	rightful.Close()
	wait.Until(t, "once it is gone the stream is the other one's", func() bool { return other.Health() == nil })
	arrives(t, other, &ofOther, "mr.work.1")
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

// The store inside the process belongs to this process alone. A stream that another database or version left there
// goes.
func TestEmbedded_stream_that_is_not_ours_is_made_again(t *testing.T) {
	t.Parallel()
	t.Run("of a database that is gone", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		before := open(t, queue.Config{Dir: dir, Installation: "gone"})
		ready(t, before)
		before.Close()
		worksEmbedded(t, dir)
	})
	t.Run("a work queue", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		before := queuetest.NewIn(t, dir)
		makeStream(t, before.URL(), jetstream.StreamConfig{Name: "MR", Subjects: []string{"mr.>"},
			Retention: jetstream.WorkQueuePolicy, Discard: jetstream.DiscardNew, MaxMsgsPerSubject: 1,
			DiscardNewPerSubject: true, Metadata: map[string]string{"supplyhub.installation": "new"}})
		before.Stop()
		worksEmbedded(t, dir)
	})
}

func worksEmbedded(t *testing.T, dir string) {
	t.Helper()
	q := open(t, queue.Config{Dir: dir, Installation: "new"})
	ready(t, q)
	var c collector
	consume(t, q, c.take, "mr.work.1")
	arrives(t, q, &c, "mr.work.1")
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
