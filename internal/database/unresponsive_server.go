package database

import (
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A server hangs when its connections stay open and it answers nothing. Statements would wait for their timeout of 30
// s, which such a server does not keep, or for TCP. So each connection that waits for an answer looks for itself:
//
//  1. For half of a limit it gets no byte, nor does any other connection to its server.
//  2. It asks the server the first question of the protocol over a connection of its own. That needs no login, and a
//     server that is only busy answers it.
//  3. When nothing comes for the other half either, it fails, and the idle connections are closed with it. For a third
//     of the limit nothing dials that server: who wants a connection is refused at once.
//
// New connections do not help a busy server, which may send nothing for seconds: the limit is long. It is short where
// the address has another host, as a failover has ten seconds. Commands are not watched: they can wait.

const (
	hangNext   = 5 * time.Second  // the limit where there is another host
	hangOnly   = 15 * time.Second // the limit where there is none
	sslRequest = 80877103         // the first question of the protocol
)

var errHangs = errors.New("the server holds connections open and answers nothing")

// hangs makes the connections that find servers that hang.
type hangs struct {
	dial  pgconn.DialFunc
	limit time.Duration // without a byte
	found func()        // a server hangs, its connections are to be closed
	log   *slog.Logger
	heard sync.Map // an *atomic.Int64 by address: how many times its server has sent something
	rests sync.Map // a time.Time by address: until then its server is not dialled
}

func newHangs(cfg *pgx.ConnConfig, found func(), log *slog.Logger) *hangs {
	h := &hangs{dial: cfg.DialFunc, limit: hangOnly, found: found, log: log}
	if several(cfg) {
		h.limit = hangNext
	}
	return h
}

// connect dials a server, unless it was found to hang a moment ago.
func (h *hangs) connect(ctx context.Context, network, address string) (net.Conn, error) {
	if until, _ := h.rests.Load(address); until != nil && time.Now().Before(until.(time.Time)) { //nolint:forcetypeassert
		return nil, errHangs
	}
	made, err := h.dial(ctx, network, address)
	if err != nil {
		return nil, err
	}
	heard, _ := h.heard.LoadOrStore(address, new(atomic.Int64))
	return &answering{Conn: made, hangs: h, network: network, address: address,
		heard: heard.(*atomic.Int64)}, nil //nolint:forcetypeassert // stored above
}

// answering is a connection that looks whether its server hangs. One goroutine reads; another one may end its reading.
type answering struct {
	net.Conn
	hangs            *hangs
	network, address string
	heard            *atomic.Int64

	mu    sync.Mutex
	ended bool               // the reader has a deadline of its own
	quit  context.CancelFunc // ends the question
}

// SetDeadline is how pgx ends a reading whose context is over; zero lets it read again.
func (c *answering) SetDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended = !at.IsZero(); c.ended && c.quit != nil {
		c.quit()
	}
	return c.Conn.SetDeadline(at)
}

// Read is steps 1 and 3.
func (c *answering) Read(p []byte) (int, error) {
	for {
		before := c.heard.Load()
		c.mu.Lock()
		ended := c.ended
		if !ended {
			_ = c.Conn.SetReadDeadline(time.Now().Add(c.hangs.limit / 2)) // of a closed connection, which Read reports
		}
		c.mu.Unlock()
		n, err := c.Conn.Read(p)
		if n > 0 {
			c.heard.Add(1)
		}
		switch {
		case n > 0, ended, !errors.Is(err, os.ErrDeadlineExceeded):
			return n, err
		case c.heard.Load() == before && c.silent() && c.heard.Load() == before:
			c.hangs.log.Warn("a database server answers nothing: its connections are closed", "server", c.address)
			c.hangs.rests.Store(c.address, time.Now().Add(c.hangs.limit/3))
			c.hangs.found()
			return 0, errHangs
		}
	}
}

// silent is step 2: it reports whether the server lets the question wait.
func (c *answering) silent() bool {
	ctx, cancel := context.WithTimeout(context.Background(), c.hangs.limit/2)
	defer cancel()
	c.mu.Lock()
	if c.quit = cancel; c.ended {
		cancel()
	}
	c.mu.Unlock()
	asked, err := c.hangs.dial(ctx, c.network, c.address)
	if err != nil {
		return errors.Is(ctx.Err(), context.DeadlineExceeded)
	}
	defer asked.Close()
	stop := context.AfterFunc(ctx, func() { _ = asked.Close() })
	defer stop()
	question := binary.BigEndian.AppendUint32(binary.BigEndian.AppendUint32(nil, 8), sslRequest)
	if _, err = asked.Write(question); err == nil {
		_, err = asked.Read(make([]byte, 1))
	}
	return err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
}
