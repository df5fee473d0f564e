package sending

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// line is a connection that can be cut without a word, or bring nothing until a moment.
type line struct {
	net.Conn
	cut   atomic.Bool
	until atomic.Int64 // Unix nanoseconds
}

func (l *line) Write(p []byte) (int, error) {
	if l.cut.Load() {
		return len(p), nil
	}
	return l.Conn.Write(p)
}

func (l *line) Read(p []byte) (int, error) {
	n, err := l.Conn.Read(p)
	<-time.After(time.Until(time.Unix(0, l.until.Load())))
	return n, err
}

// pipes is a listener of connections in memory.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	if c, open := <-p; open {
		return c, nil
	}
	return nil, net.ErrClosed
}

func (pipes) Close() error { return nil }

func (pipes) Addr() net.Addr { return &net.TCPAddr{} }

func TestSender_leaves_an_HTTP2_connection_that_is_silent_and_waits_for_a_receiver_that_is_slow(t *testing.T) {
	t.Parallel()
	for _, destination := range []string{"acme", deliveries.OwnEndpoint} {
		t.Run(destination, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				lines, accepted, protocols := []*line{}, make(pipes), new(http.Protocols)
				protocols.SetUnencryptedHTTP2(true)
				server := &http.Server{Protocols: protocols,
					Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
				go func() { _ = server.Serve(accepted) }()
				s := newSender(Deps{Concurrency: 1, Timeout: 15 * time.Second})
				defer func() {
					close(accepted)
					s.close()
					for _, l := range lines {
						_ = l.Close()
					}
				}()
				client := s.suppliers
				if destination == deliveries.OwnEndpoint {
					client = s.own
				}
				transport := client.HTTPClient.Transport.(wire).RoundTripper.(*http.Transport)
				transport.Protocols = protocols
				transport.DialContext = func(context.Context, string, string) (net.Conn, error) {
					here, there := net.Pipe()
					accepted <- there
					lines = append(lines, &line{Conn: here})
					return lines[len(lines)-1], nil
				}
				to := receivers.Receiver{URL: "http://receiver.test", Secrets: []webhook.Secret{webhook.NewSecret()}, Active: true}
				call := func() deliveries.Answer {
					return s.callOnce(t.Context(), job{Begun: deliveries.Begun{Destination: destination}, target: to}, time.Now())
				}
				if a := call(); a.Status != http.StatusOK {
					t.Fatalf("answered %d, %v", a.Status, a.Err)
				}
				synctest.Wait() // net/http keeps the connection for others after it was given to the first call
				lines[0].until.Store(time.Now().Add(14 * time.Second).UnixNano())
				if a := call(); a.Status != http.StatusOK || len(lines) != 1 {
					t.Errorf("a slow receiver: answered %d, %v by %d connections", a.Status, a.Err, len(lines))
				}
				lines[0].cut.Store(true)
				for begun := time.Now(); call().Status != http.StatusOK; <-time.After(time.Second) { // as probes come
					if time.Since(begun) > 30*time.Second {
						t.Fatalf("calls fail for %v", time.Since(begun))
					}
				}
			})
		})
	}
}
