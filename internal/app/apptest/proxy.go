package apptest

import (
	"net"
	"sync"
	"testing"
	"time"
)

// Proxy is a TCP proxy that can cut every connection, delay what passes, or let nothing pass without a sign, as
// networks do. It is our own because PostgreSQL listens on a socket file in the tests, which no proxy library reaches.
type Proxy struct {
	Address string
	network string
	target  string
	mu      sync.Mutex
	down    bool
	open    map[net.Conn]struct{}
	delay   time.Duration                 // of each piece, each way
	stalled chan struct{}                 // closed when what is held back may pass; nil: nothing is held back
	pass    func(client, server net.Conn) // forwards until either side ends
}

// NewProxy forwards to target (tcp and host:port, or unix and a socket's path) until the test ends.
func NewProxy(tb testing.TB, network, target string) *Proxy {
	tb.Helper()
	p := &Proxy{network: network, target: target, open: map[net.Conn]struct{}{}}
	p.pass = p.pieces
	p.listen(tb)
	return p
}

func (p *Proxy) listen(tb testing.TB) {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p.Address = listener.Addr().String()
	tb.Cleanup(func() {
		_ = listener.Close() // ends the loop below
		p.Heal()
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

// Stall holds back everything until Heal, new connections included, without an error to either side.
func (p *Proxy) Stall() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.stalled == nil {
		p.stalled = make(chan struct{})
	}
}

// Delay makes everything wait for d, each way.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Heal ends all of it.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.down, p.delay = false, 0
	if p.stalled != nil {
		close(p.stalled)
		p.stalled = nil
	}
}

// wait is how long a piece is under way.
func (p *Proxy) wait() {
	p.mu.Lock()
	delay, stalled := p.delay, p.stalled
	p.mu.Unlock()
	if delay > 0 {
		time.Sleep(delay)
	}
	if stalled != nil {
		<-stalled
	}
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
	p.pass(client, server)
}

// pieces forwards what comes, as it comes.
func (p *Proxy) pieces(client, server net.Conn) {
	done := make(chan struct{}, 2)
	pipe := func(to, from net.Conn) {
		defer func() { done <- struct{}{} }()
		piece := make([]byte, 64<<10)
		for {
			n, err := from.Read(piece)
			p.wait()
			if _, failed := to.Write(piece[:n]); err != nil || failed != nil {
				return
			}
		}
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
