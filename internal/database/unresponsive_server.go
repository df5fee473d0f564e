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

// A server hangs when its connections stay open and it answers nothing. Statements would wait for their timeout of 30
// s, which such a server does not keep, or for TCP. So, in this order: a statement waits, and the server has sent no
// byte to anybody for half of a limit; it is asked the first question of the protocol, which needs no login; when it
// sends nothing for the other half either, its connections are closed, and none is dialled until it answers.
//
// A server that is only busy may send nothing for seconds, and new connections do not help it: the limit is long. It is
// short where the address has another host, as a failover has ten seconds. Commands are not watched: they can wait, and
// their one connection says little.

const (
	hangTick   = time.Second
	hangNext   = 5 * time.Second  // the limit where there is another host
	hangOnly   = 15 * time.Second // the limit where there is none
	sslRequest = 80877103         // the first question of the protocol
)

var errHangs = errors.New("the server holds connections open and answers nothing")

// hangs finds servers that hang.
type hangs struct {
	dial  pgconn.DialFunc
	limit time.Duration // without a byte
	found func()        // a server hangs, its connections are to be closed
	log   *slog.Logger
	start time.Time // times below are nanoseconds after it: the machine's clock may jump

	mu      sync.Mutex
	servers map[endpoint]*watched
}

// endpoint is a server as it is dialled.
type endpoint struct{ network, address string }

// watched is a server and the connections to it.
type watched struct {
	answered atomic.Int64 // when it last sent a byte
	hung     bool
	conns    map[*answering]struct{}
}

// newHangs watches the connections that are dialled. It calls found before it closes those of a server that hangs.
func newHangs(cfg *pgx.ConnConfig, found func(), log *slog.Logger) *hangs {
	h := &hangs{dial: cfg.DialFunc, limit: hangOnly, found: found, log: log, start: time.Now(),
		servers: make(map[endpoint]*watched)}
	if several(cfg) {
		h.limit = hangNext
	}
	return h
}

func (h *hangs) now() int64 { return int64(time.Since(h.start)) }

// connect dials a server, unless it hangs.
func (h *hangs) connect(ctx context.Context, network, address string) (net.Conn, error) {
	to := endpoint{network, address}
	h.mu.Lock()
	server := h.servers[to]
	if server == nil {
		server = &watched{conns: make(map[*answering]struct{})}
		h.servers[to] = server
	}
	hung := server.hung
	h.mu.Unlock()
	if hung {
		return nil, errHangs
	}
	made, err := h.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	c := &answering{Conn: made, hangs: h, server: server}
	h.mu.Lock()
	defer h.mu.Unlock()
	server.conns[c] = struct{}{}
	return c, nil
}

// run looks for servers that hang until ctx ends.
func (h *hangs) run(ctx context.Context) {
	ticker := time.NewTicker(hangTick)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		for to, server := range h.suspects() {
			h.judge(ctx, to, server)
		}
	}
}

// suspects returns the servers that let a statement wait and send nothing, and those that hang.
func (h *hangs) suspects() map[endpoint]*watched {
	h.mu.Lock()
	defer h.mu.Unlock()
	suspects := make(map[endpoint]*watched)
	before := h.now() - int64(h.limit/2)
	for to, server := range h.servers {
		suspect := server.hung
		for c := range server.conns {
			since := c.since.Load()
			suspect = suspect || since != 0 && since < before && server.answered.Load() < before
		}
		if suspect {
			suspects[to] = server
		}
	}
	return suspects
}

// judge asks a server, and acts on its answer. One that is gone, rather than hanging, ends its connections itself.
func (h *hangs) judge(ctx context.Context, to endpoint, server *watched) {
	answered := server.answered.Load()
	err := h.ask(ctx, to)
	if ctx.Err() != nil {
		return
	}
	late, isNet := errors.AsType[net.Error](err)
	hangs := isNet && late.Timeout() && server.answered.Load() == answered
	if !hangs {
		server.answered.Store(h.now())
	}
	h.mu.Lock()
	before := server.hung
	server.hung = hangs
	h.mu.Unlock()
	switch {
	case hangs && !before:
		h.log.WarnContext(ctx, "a database server answers nothing: its connections are closed", "server", to.address)
		h.found()
	case before && !hangs:
		h.log.InfoContext(ctx, "the database server answers again", "server", to.address)
	}
	if hangs { // also what was being dialled meanwhile
		h.closeAll(server)
	}
}

// closeAll closes a server's connections.
func (h *hangs) closeAll(server *watched) {
	h.mu.Lock()
	var conns []net.Conn
	for c := range server.conns {
		conns = append(conns, c)
	}
	h.mu.Unlock()
	for _, c := range conns {
		_ = c.Close() // it is given up whatever this says
	}
}

// ask reports why a server does not answer.
func (h *hangs) ask(ctx context.Context, to endpoint) error {
	ctx, cancel := context.WithTimeout(ctx, h.limit/2)
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

// answering is a connection that notes since when it waits, and its server's bytes.
type answering struct {
	net.Conn
	hangs  *hangs
	server *watched
	since  atomic.Int64 // when the read began; 0: nothing reads
}

// Read reads.
func (c *answering) Read(p []byte) (int, error) {
	c.since.Store(c.hangs.now())
	defer c.since.Store(0)
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.server.answered.Store(c.hangs.now())
	}
	return n, err
}

// Close closes.
func (c *answering) Close() error {
	c.hangs.mu.Lock()
	delete(c.server.conns, c)
	c.hangs.mu.Unlock()
	return c.Conn.Close()
}
