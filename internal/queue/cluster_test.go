package queue_test

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

// A consumer is in the memory of one of the three servers. Whichever is lost, alone or with another one, killed or
// silent: messages come again by themselves, publishing never waits, and the log says little.
func TestCluster_that_loses_nodes_brings_messages_again(t *testing.T) {
	t.Parallel()
	if os.Getenv("SUPPLYHUB_TEST_CHAOS") == "" {
		t.Skip("three NATS servers of its own; run `make test-platforms`")
	}
	nats := queuetest.NewCluster(t)
	var addresses []string
	for _, node := range nats.Nodes {
		addresses = append(addresses, "nats://"+node.Address())
	}
	var log lines
	registry := prometheus.NewRegistry()
	cfg := queue.Config{URL: strings.Join(addresses, ","), Replicas: 3, Installation: "ours", Registerer: registry,
		Log: slog.New(slog.NewTextHandler(&log, nil))}
	q, err := queue.Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(q.Close)
	ready(t, q)
	var c collector
	consume(t, q, c.take, "mr.work.1", "mr.work.2")
	arrives(t, q, &c, "mr.work.1")
	for i, node := range nats.Nodes {
		node.Kill()
		arrives(t, q, &c, "mr.work.1")
		node.Start(0)
		arrives(t, q, &c, "mr.work.2")
		wait.Until(t, fmt.Sprintf("it is well again after node %d was killed", i), func() bool { return q.Health() == nil })
	}
	for _, node := range nats.Nodes[1:] {
		node.Signal(syscall.SIGSTOP)
	}
	wait.Until(t, "it says that it cannot be used", func() bool {
		publishMany(t, q, 1000)
		return q.Health() != nil
	})
	for _, node := range nats.Nodes[1:] {
		node.Signal(syscall.SIGCONT)
	}
	arrives(t, q, &c, "mr.work.1")
	wait.Until(t, "it is well again after two were silent", func() bool { return q.Health() == nil })
	if n := log.count("\n"); n > 100 {
		t.Errorf("%d lines are logged:\n%s", n, log.text.String())
	}
}
