package database

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// In order: a statement has waited a second for its server (suspects); a connection of its own asks the
// server the first question of the protocol (ask); when neither that one nor any other connection got a byte for some
// time, the server counts as one that hangs (judge): its connections are closed, waiting statements fail as
// unavailable, and none is dialled until it answers. Without this they would wait for their statement timeout of 30
// s, which such a server does not keep, or for TCP.
//
// Where the address has another host, that time is short, as a failover has ten seconds. A server that is only busy
// may answer nothing for a few seconds, and is not helped by new connections: where there is no other, it has time.
// Commands are not watched: they can wait, and their one connection says little.

const (
	hangTick    = 250 * time.Millisecond
	hangSuspect = time.Second      // without an answer: the server is asked whether it still answers anybody
	hangNext    = 5 * time.Second  // for that, where there is another host
	hangOnly    = 15 * time.Second // for that, where there is none
	hangAgain   = 2 * time.Second  // after it did, before it is asked once more
	sslRequest  = 80877103         // the first question of the protocol, which needs no login
)

var errHangs = errors.New("the server holds connections open and answers nothing")

// hangs finds servers that hang: connections stay open and nothing answers, for as long as TCP lets them, so that
// whatever waits for them would wait too. A server that keeps a statement waiting is probed by a connection of its own.
// When that is not answered either, nor anything else meanwhile, as one that is overloaded takes long for a new
// connection, all connections to it are closed and no others are made until it answers; the address's other hosts are
// tried at once.
type hangs struct {
	dial  pgconn.DialFunc
	limit time.Duration // for an answer
	found func()        // a server hangs, its connections are closed
	log   *slog.Logger
	start time.Time

	mu      sync.Mutex
	conns   map[*answering]endpoint
	servers map[endpoint]*suspect
	answers map[endpoint]*atomic.Int64 // how many times a server's connections got something
	asking  sync.WaitGroup
}

// endpoint is a server as it is dialled.
type endpoint struct{ network, address string }

// suspect is what is known of a server that kept a statement waiting.
type suspect struct {
	hung, asked bool
	answered    time.Time
}

// newHangs watches the connections that are dialled; found is called after those of a server that hangs are given up.
func newHangs(cfg *pgx.ConnConfig, found func(), log *slog.Logger) *hangs {
	h := &hangs{dial: cfg.DialFunc, limit: hangOnly, found: found, log: log, start: time.Now(),
		conns: make(map[*answering]endpoint), servers: make(map[endpoint]*suspect),
		answers: make(map[endpoint]*atomic.Int64)}
	if several(cfg) {
		h.limit = hangNext
	}
	return h
}

// got returns the count of the answers of a server.
func (h *hangs) got(to endpoint) *atomic.Int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	count := h.answers[to]
	if count == nil {
		count = new(atomic.Int64)
		h.answers[to] = count
	}
	return count
}

// connect dials a server, unless it hangs.
func (h *hangs) connect(ctx context.Context, network, address string) (net.Conn, error) {
	to := endpoint{network, address}
	h.mu.Lock()
	known := h.servers[to]
	refused := known != nil && known.hung
	h.mu.Unlock()
	if refused {
		return nil, errHangs
	}
	made, err := h.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &answering{Conn: made, hangs: h, got: h.got(to)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.conns[c] = to
	return c, nil
}

// run looks for servers that hang until ctx ends.
func (h *hangs) run(ctx context.Context) {
	ticker := time.NewTicker(hangTick)
	defer ticker.Stop()
	defer h.asking.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for _, to := range h.suspects() {
			h.asking.Go(func() {
				before := h.got(to).Load()
				err := h.ask(ctx, to)
				h.judge(ctx, to, h.got(to).Load() != before, err)
			})
		}
	}
}

// suspects returns the servers to be asked now.
func (h *hangs) suspects() (list []endpoint) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c, to := range h.conns {
		if h.servers[to] == nil && c.waited() > hangSuspect {
			h.servers[to] = &suspect{}
		}
	}
	for to, s := range h.servers {
		switch {
		case s.asked:
		case s.answered.IsZero():
			s.asked = true
			list = append(list, to)
		case time.Since(s.answered) > hangAgain:
			delete(h.servers, to) // a statement that still waits makes it suspect again
		}
	}
	return list
}

// ask reports why the server does not answer.
func (h *hangs) ask(ctx context.Context, to endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, h.limit)
	defer cancel()
	c, err := h.dial(ctx, to.network, to.address)
	if err != nil {
		return err
	}
	defer c.Close()
	deadline, _ := ctx.Deadline()
	if err := c.SetDeadline(deadline); err != nil {
		return err
	}
	question := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), sslRequest)
	if _, err := c.Write(question); err != nil {
		return err
	}
	_, err = c.Read(make([]byte, 1))
	return err
}

// judge acts on a server's answer, and on whether its connections got any meanwhile. One that is gone, rather than
// hanging, ends its connections itself.
func (h *hangs) judge(ctx context.Context, to endpoint, answers bool, err error) {
	if ctx.Err() != nil {
		return
	}
	late, isNet := errors.AsType[net.Error](err)
	hung := isNet && late.Timeout() && !answers
	lost, before := h.set(to, hung)
	if before != hung {
		h.report(ctx, to, hung)
	}
	if len(lost) > 0 {
		h.found()
	}
	for _, c := range lost {
		_ = c.Close() // it is given up whatever this says
	}
}

// set notes whether the server hangs, and returns the connections that it has then.
func (h *hangs) set(to endpoint, hung bool) (lost []net.Conn, before bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	s := h.servers[to]
	before = s.hung
	s.asked, s.hung, s.answered = false, hung, time.Time{}
	if !hung {
		s.answered = time.Now()
		return nil, before
	}
	for c, at := range h.conns {
		if at == to {
			lost = append(lost, c)
		}
	}
	return lost, before
}

// report logs that a server has begun to hang, or answers again.
func (h *hangs) report(ctx context.Context, to endpoint, hung bool) {
	if hung {
		h.log.WarnContext(ctx, "a database server answers nothing: its connections are closed", "server", to.address)
		return
	}
	h.log.InfoContext(ctx, "the database server answers again", "server", to.address)
}

// answering is a connection that knows for how long it has waited for its server.
type answering struct {
	net.Conn
	hangs *hangs
	since atomic.Int64  // when the read began, after the start of hangs; 0: nothing is waited for
	got   *atomic.Int64 // counts what the server's connections got
}

// Read reads.
func (c *answering) Read(p []byte) (int, error) {
	c.since.Store(int64(time.Since(c.hangs.start)))
	defer c.since.Store(0)
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.got.Add(1)
	}
	return n, err
}

// Close closes.
func (c *answering) Close() error {
	c.hangs.mu.Lock()
	delete(c.hangs.conns, c)
	c.hangs.mu.Unlock()
	return c.Conn.Close()
}

// waited returns for how long the connection has waited for a byte; 0 when nothing reads from it.
func (c *answering) waited() time.Duration {
	since := c.since.Load()
	if since == 0 {
		return 0
	}
	return time.Since(c.hangs.start) - time.Duration(since)
}
