package apptest

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"
)

// Call is one webhook call that a Receiver got.
type Call struct {
	At     time.Time
	Method string
	Path   string
	Header http.Header
	Body   []byte
}

// Receiver is a supplier's webhook receiver: a real HTTP server that keeps every call.
type Receiver struct {
	URL   string
	mu    sync.Mutex
	calls []Call
}

// NewReceiver answers the n-th call (from 0) with answer, or with 200 when answer is nil.
func NewReceiver(tb testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *Receiver {
	r := &Receiver{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, _ := io.ReadAll(request.Body) // a call that breaks off is kept as far as it came
		r.mu.Lock()
		n := len(r.calls)
		r.calls = append(r.calls, Call{At: time.Now(), Method: request.Method, Path: request.URL.Path,
			Header: request.Header.Clone(), Body: body})
		r.mu.Unlock()
		if answer != nil {
			answer(n, w, request)
		}
	}))
	tb.Cleanup(server.Close)
	r.URL = server.URL
	return r
}

// Calls returns the calls so far.
func (r *Receiver) Calls() []Call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]Call(nil), r.calls...)
}
