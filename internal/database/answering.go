package database

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// A server hangs when its connections stay open and it answers nothing. Statements would wait for TCP, or for their
// timeout of 30 s, which such a server does not keep. So a serving connection fails when it has waited for the next
// byte for too long, and the idle ones are closed with it. With one host the limit is longer than the statement
// timeout. With several it is short, because a failover has ten seconds: the caller repeats a statement that takes
// longer. Transactions of maintenance wait for as long as they take. Commands do too.
const (
	answerOnly = 31 * time.Second
	answerNext = 4 * time.Second // where there is another host
)

var errHangs = errors.New("the server holds connections open and answers nothing")

// answering returns a dial function. Its connections fail when their server is silent for longer than the limit. It
// notes which server was, also while it was to let them in.
func (s *server) answering(dial pgconn.DialFunc, limit time.Duration) pgconn.DialFunc {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		silent := func() { s.hosts.wasSilent(address) }
		made, err := dial(ctx, network, address)
		if err != nil {
			if ctx.Err() != nil {
				silent()
			}
			return nil, err
		}
		return &bounded{Conn: made, limit: limit, silent: silent, reset: s.reset}, nil
	}
}

// bounded is a connection that waits for its server for so long. One goroutine reads; another one may end its reading.
type bounded struct {
	net.Conn
	limit  time.Duration
	silent func() // notes it
	reset  func() // gives up all connections

	mu      sync.Mutex
	in      bool // the server has let it in
	ended   bool // the reader has a deadline of its own
	patient bool // it has none
}

// SetDeadline is how pgx ends a reading whose context is over; zero lets it read again.
func (b *bounded) SetDeadline(at time.Time) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = !at.IsZero()
	return b.Conn.SetDeadline(at)
}

// Read waits for the limit at most.
func (b *bounded) Read(p []byte) (int, error) {
	b.mu.Lock()
	if !b.ended {
		var until time.Time
		if !b.patient {
			until = time.Now().Add(b.limit)
		}
		_ = b.Conn.SetReadDeadline(until) // of a closed connection, which Read reports
	}
	b.mu.Unlock()
	n, err := b.Conn.Read(p)
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ended {
		if !b.in { // the time to connect is over
			b.silent()
		}
		return n, err
	}
	b.silent()
	b.reset()
	return n, errHangs
}

// boundedOf returns how a connection is bounded; nil when it is not.
func boundedOf(conn *pgconn.PgConn) *bounded {
	wire := conn.Conn()
	if encrypted, is := wire.(*tls.Conn); is {
		wire = encrypted.NetConn()
	}
	b, _ := wire.(*bounded)
	return b
}

// letIn notes that a connection is made.
func letIn(_ context.Context, conn *pgx.Conn) error {
	if b := boundedOf(conn.PgConn()); b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.in = true
	}
	return nil
}

// waits lets a connection wait for as long as its server takes, or no longer than others.
func waits(conn *pgconn.PgConn, patient bool) {
	if b := boundedOf(conn); b != nil {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.patient = patient
	}
}
