package httpapi

import (
	"context"
	"crypto/rand"
	"io"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"sync/atomic"
)

// lengthField is how a header field begins that says a body's length.
const lengthField = "content-length:"

// Listener makes connections count the lengths that requests announce. net/http hides a length that was sent next to
// "Transfer-Encoding: chunked", by which a proxy may have found another end of the request (RFC 9112, 6.1); the next
// request on such a connection may be none of the proxy's callers. Connections are counted in the ledger, against their
// addresses; one that gets no memory is answered 503.
func (l *Ledger) Listener(inner net.Listener) net.Listener {
	return &listener{Listener: inner, account: l.strangers}
}

type listener struct {
	net.Listener
	account *Shares
}

// Accept returns the next connection that there is memory for.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		caller := ""
		if peer, err := netip.ParseAddrPort(c.RemoteAddr().String()); err == nil {
			caller = network(peer.Addr())
		}
		if l.account.Take(caller, connectionBytes) {
			return &wire{Conn: c, matched: notHere,
				giveBack: sync.OnceFunc(func() { l.account.Release(caller, connectionBytes) })}, nil
		}
		// Its buffer is empty: this waits for nothing.
		_, _ = io.WriteString(c, busy+requestIDHeader+": "+rand.Text()+"\r\n\r\n")
		_ = c.Close()
	}
}

// busy is the head, but for its last line, that answers a connection that there is no memory for.
const busy = "HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\nContent-Length: 0\r\n"

// wire counts the lines that begin with lengthField, those in bodies too: a text that looks like one costs a
// connection, never more.
//
// Two goroutines of net/http use it: the one that reads the connection writes matched, the one that serves its requests
// writes known. They meet in lines.
type wire struct {
	net.Conn
	giveBack func()
	owed     atomic.Pointer[func()] // what the last request is to release when its body has come
	matched  int                    // bytes of lengthField on the current line, or notHere
	lines    atomic.Int64           // that began with lengthField
	known    int64                  // of these, how many net/http shows of the requests so far
}

const notHere = -1

// Close releases the bytes that the connection was counted with.
func (w *wire) Close() error {
	defer w.giveBack()
	defer w.settle()
	return w.Conn.Close()
}

// settle releases what the last request is to release.
func (w *wire) settle() {
	if release := w.owed.Swap(nil); release != nil {
		(*release)()
	}
}

// Read looks for the field whatever its letters' case: a request's first line has none.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	for _, b := range p[:n] {
		switch {
		case b == '\n':
			w.matched = 0
		case w.matched == notHere:
		case b == lengthField[w.matched] || 'A' <= b && b <= 'Z' && b+('a'-'A') == lengthField[w.matched]:
			if w.matched++; w.matched == len(lengthField) {
				w.lines.Add(1)
				w.matched = notHere
			}
		default:
			w.matched = notHere
		}
	}
	return n, err
}

type wireKey struct{}

func withWire(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, wireKey{}, c)
}

// closeWhenAmbiguous lets nothing follow a body in chunks on its connection when a length may have been sent with it.
func closeWhenAmbiguous(next http.Handler) http.Handler {
	return http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		w, watched := r.Context().Value(wireKey{}).(*wire)
		if watched {
			w.settle()
			w.known += int64(len(r.Header["Content-Length"]))
		}
		if len(r.TransferEncoding) > 0 && (!watched || w.lines.Load() != w.known) {
			rw.Header().Set("Connection", "close")
		}
		next.ServeHTTP(rw, r)
	})
}
