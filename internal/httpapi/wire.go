package httpapi

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
)

// lengthField is how a header field begins that says a body's length.
const lengthField = "content-length:"

// Listener makes connections count the lengths that requests announce. net/http hides a length that was sent next to
// "Transfer-Encoding: chunked", by which a proxy may have found another end of the request (RFC 9112, 6.1); the next
// request on such a connection may be none of the proxy's callers.
func Listener(l net.Listener) net.Listener { return listener{l} }

type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c, matched: notHere}, nil
}

// wire counts the lines that begin with lengthField, those in bodies too: a text that looks like one costs a
// connection, never more.
type wire struct {
	net.Conn
	matched int          // bytes of lengthField on the current line, or notHere
	lines   atomic.Int64 // that began with lengthField
	known   int64        // of these, how many net/http shows of the requests so far
}

const notHere = -1

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
			w.known += int64(len(r.Header["Content-Length"]))
		}
		if len(r.TransferEncoding) > 0 && (!watched || w.lines.Load() != w.known) {
			rw.Header().Set("Connection", "close")
		}
		next.ServeHTTP(rw, r)
	})
}
