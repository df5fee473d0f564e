package queue_test

import (
	"bufio"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue"
)

// silentServer takes one client, as NATS does, and says nothing to those who come after it.
type silentServer struct {
	net.Listener
	came  chan net.Conn // those who come later
	first chan net.Conn
}

func newSilentServer(t *testing.T) *silentServer {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	s := &silentServer{Listener: listener, came: make(chan net.Conn, 100), first: make(chan net.Conn, 1)}
	go func() {
		for n := 0; ; n++ {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			if n > 0 {
				s.came <- c
				continue
			}
			s.first <- c
			go greet(c)
		}
	}()
	return s
}

// greet answers a client's first words.
func greet(c net.Conn) {
	const info = `INFO {"server_id":"S","version":"2.10.0","proto":1,"headers":true,"max_payload":1048576}`
	if _, err := c.Write([]byte(info + "\r\n")); err != nil {
		return
	}
	for lines := bufio.NewScanner(c); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "PING") {
			if _, err := c.Write([]byte("PONG\r\n")); err != nil {
				return
			}
		}
	}
}

func TestPublishing_waits_for_no_server_that_is_silent(t *testing.T) {
	t.Parallel()
	server := newSilentServer(t)
	q := open(t, queue.Config{URL: "nats://" + server.Addr().String()})
	wait.Until(t, "it is connected", q.Connected)
	_ = (<-server.first).Close()
	<-server.came // the client connects to it, and waits for its first word
	begun := time.Now()
	for range 100 {
		q.Publish("mr.s1.1", nil)
	}
	if took := time.Since(begun); took > atOnce {
		t.Errorf("calls waited for %s", took)
	}
}
