package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// deliveryWait is how long the receiver waits for the last webhook after the posting ended.
const deliveryWait = 5 * time.Minute

// receiver takes the webhooks of the requests that the same process posts, so that one clock measures how long they
// took.
type receiver struct {
	server *http.Server
	mutex  sync.Mutex
	sent   map[int64]time.Time
	took   []time.Duration
	last   time.Time
	seen   map[int64]bool
}

func startReceiver(address string) (*receiver, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	r := &receiver{sent: map[int64]time.Time{}, seen: map[int64]bool{}}
	r.server = &http.Server{Handler: http.HandlerFunc(r.take), ReadHeaderTimeout: 5 * time.Second}
	go func() { _ = r.server.Serve(l) }() // ends with close
	return r, nil
}

func (r *receiver) close() {
	if r != nil {
		_ = r.server.Close()
	}
}

// posting notes when the request's first byte was sent.
func (r *receiver) posting(id int64, at time.Time) {
	if r == nil {
		return
	}
	r.mutex.Lock()
	r.sent[id] = at
	r.mutex.Unlock()
}

func (r *receiver) take(w http.ResponseWriter, request *http.Request) {
	now := time.Now()
	id, err := requestID(request.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	sent, known := r.sent[id]
	if !known || r.seen[id] { // one of an earlier run, or a second attempt
		return
	}
	r.seen[id] = true
	r.took = append(r.took, now.Sub(sent))
	r.last = now
}

// requestID finds the id without decoding the event: the load is to cost little compared with what it measures.
func requestID(body io.Reader) (int64, error) {
	text, err := io.ReadAll(body)
	if err != nil {
		return 0, err
	}
	_, after, found := bytes.Cut(text, []byte(`"request_id":`))
	if !found {
		return 0, errors.New("the event has no request_id")
	}
	return strconv.ParseInt(string(after[:max(bytes.IndexAny(after, ",}"), 0)]), 10, 64)
}

func (r *receiver) count() int64 {
	if r == nil {
		return 0
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return int64(len(r.took))
}

// finish waits for the last webhook and fills the result.
func (r *receiver) finish(begin time.Time, result *loadResult) error {
	if r == nil {
		return nil
	}
	for end := time.Now().Add(deliveryWait); r.count() < result.Accepted; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			return fmt.Errorf("%d of %d accepted requests were not delivered", result.Accepted-r.count(), result.Accepted)
		}
	}
	r.mutex.Lock()
	defer r.mutex.Unlock()
	n := len(r.took)
	if n == 0 {
		return nil
	}
	result.Delivered, result.DrainSeconds = int64(n), r.last.Sub(begin).Seconds()
	result.Delivery50, result.Delivery99 = quantiles(r.took)
	return nil
}
