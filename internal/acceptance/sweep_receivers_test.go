package acceptance

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// longCall is a call under which a worker may lose its lease: one that cannot renew it lets its calls end, and another
// worker, which takes it for dead, makes them again. Between the two begins lie 0.7 s, less what the first call took to
// arrive.
const longCall = 500 * time.Millisecond

// callLedger counts calls by webhook-id and notes two of one delivery at once.
type callLedger struct {
	mu     sync.Mutex
	calls  map[string][]time.Time
	open   map[string]int
	faults []string
}

func newCallLedger() *callLedger {
	return &callLedger{calls: map[string][]time.Time{}, open: map[string]int{}}
}

// begin notes a call and returns its place among those of the delivery, from 1.
func (l *callLedger) begin(r *http.Request) (n int, end func()) {
	id := r.Header.Get("webhook-id")
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls[id] = append(l.calls[id], time.Now().UTC())
	l.open[id]++
	// Each worker asks the own endpoint by the id doctor whether it is there.
	if times := l.calls[id]; id != "doctor" && l.open[id] > 1 && times[len(times)-1].Sub(times[len(times)-2]) < longCall {
		l.faults = append(l.faults, fmt.Sprintf("%s: %d calls at once, began at %v", id, l.open[id], times))
	}
	return len(l.calls[id]), func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.open[id]--
	}
}

// of returns when a delivery was called.
func (l *callLedger) of(id string) []time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.calls[id]
}

// all is how many calls each delivery had.
func (l *callLedger) all() map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := map[string]int{}
	for id, times := range l.calls {
		all[id] = len(times)
	}
	return all
}

func (l *callLedger) found() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.faults)
}

// total is how many calls there were of how many deliveries.
func (l *callLedger) total() (calls, deliveries int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for times := range maps.Values(l.calls) {
		calls += len(times)
	}
	return calls, len(l.calls)
}

// sweepReceiver answers the n-th call of a delivery by status a moment later, so that calls can overlap.
func sweepReceiver(t *testing.T, l *callLedger, status func(n int) int) string {
	t.Helper()
	const takes = 30 * time.Millisecond
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n, end := l.begin(r)
		defer end()
		select {
		case <-r.Context().Done():
		case <-time.After(takes):
			w.WriteHeader(status(n))
		}
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// stumbles answers most first calls of a delivery with the status, and never so many in turn that the receiver counts
// as failing.
func stumbles(status int) func(n int) int {
	var turn atomic.Int64
	return func(n int) int {
		if n == 1 && turn.Add(1)%3 != 0 {
			return status
		}
		turn.Store(0)
		return http.StatusOK
	}
}

// countedEndpoint calls the service's own endpoint at the api, and refuses the first call for each request of
// refusedShop.
func countedEndpoint(t *testing.T, l *callLedger, api func() string) string {
	t.Helper()
	proxy := &httputil.ReverseProxy{
		Rewrite:      func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: api()}) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}
	var refused sync.Map // paths
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return // cut on the way
		}
		_, end := l.begin(r)
		defer end()
		if bytes.Contains(body, []byte(refusedShop)) {
			if _, again := refused.LoadOrStore(r.URL.Path, true); !again {
				w.WriteHeader(http.StatusTeapot)
				return
			}
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}
