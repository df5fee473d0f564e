package queue_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

func behindOne() int { return 1 }

func TestConsume_leaves_the_work_to_the_first_while_it_can(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	a, b := open(t, queue.Config{URL: server.URL()}), open(t, queue.Config{URL: server.URL()})
	ready(t, a)
	const n = 200
	var first, behind collector
	consume(t, a, 64, first.handle)
	consumeInTurn(t, b, 64, behindOne, behind.handle)
	for i := range n {
		a.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
		wait.Until(t, "it is worked on", func() bool { return first.subjects()+behind.subjects() == i+1 })
	}
	if got := first.subjects(); got < n/2+n/4 {
		t.Errorf("the first worked on %d of %d", got, n)
	}
}

func TestConsume_gives_what_is_too_much_for_the_first_to_the_others(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	a, b := open(t, queue.Config{URL: server.URL()}), open(t, queue.Config{URL: server.URL()})
	ready(t, a)
	const n, few = 100, 32
	release := make(chan struct{})
	var held atomic.Int32
	var behind collector
	consume(t, a, few, func(context.Context, queue.Message) error {
		held.Add(1)
		<-release
		return nil
	})
	for i := range n {
		a.Publish(fmt.Sprintf("mr.s1.%d", i), nil)
	}
	wait.Until(t, "the first is full", func() bool { return held.Load() == few })
	consumeInTurn(t, b, n, behindOne, behind.handle)
	wait.Until(t, "the other one has the rest", func() bool { return behind.subjects() == n-few })
	close(release)
	wait.Until(t, "the queue is empty", func() bool { return lag(t, a) == 0 })
	if got := held.Load(); got != few {
		t.Errorf("the first worked on %d", got)
	}
}

func TestConsume_asks_seldom_for_what_is_left_while_there_is_nothing(t *testing.T) {
	t.Parallel()
	server := queuetest.New(t)
	q := open(t, queue.Config{URL: server.URL()})
	ready(t, q)
	observer, err := nats.Connect(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(observer.Close)
	asked, err := observer.SubscribeSync("$JS.API.CONSUMER.MSG.NEXT.>")
	if err != nil {
		t.Fatal(err)
	}
	if err := observer.Flush(); err != nil {
		t.Fatal(err)
	}
	var c collector
	consumeInTurn(t, q, 1, behindOne, c.handle)
	start := time.Now()
	for range 6 {
		if _, err := asked.NextMsg(30 * time.Second); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took < time.Second {
		t.Errorf("six questions within %s", took)
	}
	q.Publish("mr.s1.1", nil)
	wait.Until(t, "what is left is worked on", func() bool { return c.subjects() == 1 })
}
