package queuetest

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// Fault is what happens to a call.
type Fault string

// The faults.
const (
	Fails Fault = "fails" // the server does not get it, and an error is the answer; where none is waited for, as Hangs
	Hangs Fault = "hangs" // the server does not get it
	Late  Fault = "late"  // the server gets it when the caller has given up
)

// Faults are all of them, for tests that loop.
var Faults = []Fault{Fails, Hangs, Late}

// lateBy is longer than anybody waits for an answer.
const lateBy = 6 * time.Second

// Proxy is between clients and a server, understands what they send and spoils calls by their subject.
type Proxy struct {
	address, target string
	mu              sync.Mutex
	pattern         string // of the subjects; empty: nothing is spoiled
	fault           Fault
	hits            int
}

// NewProxy forwards to the server until the test ends.
func NewProxy(tb testing.TB, server *Server) *Proxy {
	tb.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	p := &Proxy{address: l.Addr().String(), target: strings.TrimPrefix(server.URL(), "nats://")}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			go p.serve(client)
		}
	}()
	return p
}

// URL returns the proxy's address.
func (p *Proxy) URL() string { return "nats://" + p.address }

// Spoil has the fault happen to every call whose subject matches the pattern, and to no other, until Heal.
func (p *Proxy) Spoil(pattern string, fault Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pattern, p.fault, p.hits = pattern, fault, 0
}

// Heal ends it.
func (p *Proxy) Heal() { p.Spoil("", "") }

// Hits returns how many calls were spoiled since Spoil.
func (p *Proxy) Hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

func (p *Proxy) faultOf(subject string) Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pattern == "" || !matches(p.pattern, subject) {
		return ""
	}
	p.hits++
	return p.fault
}

// matches reports whether the subject is one of the pattern's.
func matches(pattern, subject string) bool {
	want, have := strings.Split(pattern, "."), strings.Split(subject, ".")
	for i, token := range want {
		switch {
		case token == ">":
			return len(have) > i
		case i >= len(have) || token != "*" && token != have[i]:
			return false
		}
	}
	return len(want) == len(have)
}

// link is one client's connection.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	mu             sync.Mutex // of what follows, and of whole frames to either side
	subscriptions  map[string]string
}

func (p *Proxy) serve(client net.Conn) {
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		_ = client.Close()
		return
	}
	l := &link{proxy: p, client: client, server: server, subscriptions: map[string]string{}}
	end := sync.OnceFunc(func() {
		_ = client.Close()
		_ = server.Close()
	})
	go func() {
		defer end()
		each(client, l.toServer)
	}()
	defer end()
	each(server, func(f frame) error { return l.write(l.client, f.bytes) })
}

// frame is a line of the protocol, with the payload that follows it.
type frame struct {
	fields []string
	bytes  []byte
}

// each hands the frames to fn until the connection or fn fails.
func each(from io.Reader, fn func(frame) error) {
	r := bufio.NewReaderSize(from, 64<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		f := frame{strings.Fields(string(line)), line}
		if len(f.fields) > 0 {
			switch strings.ToUpper(f.fields[0]) {
			case "PUB", "HPUB", "MSG", "HMSG":
				size, err := strconv.Atoi(f.fields[len(f.fields)-1])
				if err != nil {
					return
				}
				payload := make([]byte, size+len("\r\n"))
				if _, err := io.ReadFull(r, payload); err != nil {
					return
				}
				f.bytes = append(f.bytes, payload...)
			}
		}
		if err := fn(f); err != nil {
			return
		}
	}
}

func (l *link) write(to io.Writer, b []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := to.Write(b)
	return err
}

func (l *link) toServer(f frame) error {
	verb := ""
	if len(f.fields) > 0 {
		verb = strings.ToUpper(f.fields[0])
	}
	switch verb {
	case "SUB":
		l.mu.Lock()
		l.subscriptions[f.fields[len(f.fields)-1]] = f.fields[1]
		l.mu.Unlock()
	case "PUB", "HPUB":
		return l.call(f, verb)
	}
	return l.write(l.server, f.bytes)
}

func (l *link) call(f frame, verb string) error {
	subject, reply, sizes := f.fields[1], "", 1
	if verb == "HPUB" {
		sizes = 2
	}
	if len(f.fields) == 3+sizes {
		reply = f.fields[2]
	}
	switch l.proxy.faultOf(subject) {
	case Late:
		time.AfterFunc(lateBy, func() { _ = l.write(l.server, f.bytes) }) // the connection may be gone by then
		return nil
	case Fails:
		return l.refuse(subject, reply)
	case Hangs:
		return nil
	default:
		return l.write(l.server, f.bytes)
	}
}

// refuse answers a call with an error, as the server does.
func (l *link) refuse(subject, reply string) error {
	const status = "NATS/1.0 500 a fault of the test\r\n\r\n"
	const body = `{"error":{"code":500,"err_code":10077,"description":"a fault of the test"}}`
	l.mu.Lock()
	defer l.mu.Unlock()
	for sid, pattern := range l.subscriptions {
		if reply == "" || !matches(pattern, reply) {
			continue
		}
		answer := fmt.Sprintf("MSG %s %s %d\r\n%s\r\n", reply, sid, len(body), body)
		if strings.HasPrefix(subject, "$JS.API.CONSUMER.MSG.NEXT.") {
			answer = fmt.Sprintf("HMSG %s %s %d %d\r\n%s\r\n", reply, sid, len(status), len(status), status)
		}
		_, err := io.WriteString(l.client, answer)
		return err
	}
	return nil
}
