package apptest

import (
	"io"
	"net"
	"sync"
	"testing"
)

// Proxy is a TCP proxy that can cut every connection and refuse new ones, as a network or a server that dies does.
type Proxy struct {
	Address string
	network string
	target  string
	mu      sync.Mutex
	down    bool
	open    map[net.Conn]struct{}
}

// NewProxy forwards to target (tcp and host:port, or unix and a socket's path) until the test ends.
func NewProxy(tb testing.TB, network, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{Address: listener.Addr().String(), network: network, target: target, open: map[net.Conn]struct{}{}}
	tb.Cleanup(func() {
		_ = listener.Close() // ends the loop below
		p.Cut()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go p.forward(client)
		}
	}()
	return p
}

// Cut closes every connection and refuses new ones until Heal.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = true
	for c := range p.open {
		_ = c.Close() // its forwarders end and forget it
	}
}

// Heal lets connections through again.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down = false
}

func (p *Proxy) forward(client net.Conn) {
	defer client.Close()
	server, err := net.Dial(p.network, p.target)
	if err != nil {
		return
	}
	defer server.Close()
	if !p.track(client, server) {
		return
	}
	defer p.forget(client, server)
	done := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		_, _ = io.Copy(to, from) // ends with either side
		done <- struct{}{}
	}
	go pipe(server, client)
	go pipe(client, server)
	<-done
}

func (p *Proxy) track(conns ...net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down {
		return false
	}
	for _, c := range conns {
		p.open[c] = struct{}{}
	}
	return true
}

func (p *Proxy) forget(conns ...net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range conns {
		delete(p.open, c)
	}
}
