package acceptance

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	chaosCallers = 6
	retryPause   = 50 * time.Millisecond // of a caller before it tries again
)

// inFull reports whether faults are made in full, as `make chaos` and `make test-platforms` do: all of them, for long,
// by whole chapters.
func inFull() bool { return os.Getenv("SUPPLYHUB_TEST_CHAOS") != "" }

// chaosPause returns a caller's pause between two requests: `make chaos` has the machine for itself.
func chaosPause() time.Duration {
	if inFull() {
		return 15 * time.Millisecond
	}
	return 50 * time.Millisecond
}

// settleTime returns how long after the last request all must be done: longer than any lease, wait and sweep. Elsewhere
// than in `make chaos` the machine may be busy.
func settleTime() time.Duration {
	if inFull() {
		return 90 * time.Second
	}
	return 5 * time.Minute
}

// aroundFault returns how many requests are accepted before a fault, and again after it.
func aroundFault() int64 {
	if inFull() {
		return 100
	}
	return 30
}

// chaos is a whole production stack whose every part and connection can be broken.
type chaos struct {
	t        *testing.T
	hub      *apptest.Hub
	postgres *cluster.Cluster
	nats     *queuetest.Cluster
	supplier *apptest.Supplier
	receiver *countingReceiver

	apiDatabase, workerDatabase []*apptest.Proxy // one a process
	apiNATS, workerNATS         []*apptest.Proxy // one a process and node
	toReceiver                  *apptest.Proxy
	toOwn                       []*apptest.Proxy // one a worker
	firstAPI                    string           // host and port
	pulse                       *pulse
	ends                        *lostEnds
}

func newChaos(t *testing.T) *chaos {
	t.Helper()
	c := &chaos{t: t, nats: queuetest.NewCluster(t), ends: &lostEnds{}}
	var err error
	if c.postgres, err = cluster.Start(true); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.postgres.Remove)
	c.exec(shiftedClock)
	c.hub = apptest.Start(t, apptest.Production, apptest.Options{
		Each: c.environment,
		Env: map[string]string{
			"DATABASE_URL": c.postgres.Address(), "NATS_URL": "nats://" + c.nats.Nodes[0].Address(), "NATS_REPLICAS": "3",
			"WEBHOOK_TIMEOUT": "2s", "WEBHOOK_RETRY_SCHEDULE": strings.TrimSuffix(strings.Repeat("1s,", 100), ","),
		},
	})
	c.receiver = newCountingReceiver(t)
	address, err := url.Parse(c.receiver.url)
	if err != nil {
		t.Fatal(err)
	}
	c.toReceiver = apptest.NewProxy(t, "tcp", address.Host)
	c.supplier = c.hub.Supplier(t, "--access-ttl", "2h", "--webhook-url", "http://"+c.toReceiver.Address+"/estimates")
	c.receiver.expect(secret(t, c.supplier.WebhookSecret))
	c.pulse = c.startPulse()
	return c
}

// environment points one process at its servers through proxies of its own.
func (c *chaos) environment(name string) map[string]string {
	database, servers := &c.apiDatabase, &c.apiNATS
	if name == "worker" {
		database, servers = &c.workerDatabase, &c.workerNATS
	}
	toDatabase := apptest.NewCommitProxy(c.t, "unix", c.postgres.Socket(), c.ends.at, func(string) {})
	*database = append(*database, toDatabase)
	var urls []string
	for _, node := range c.nats.Nodes {
		p := apptest.NewProxy(c.t, "tcp", node.Address())
		*servers = append(*servers, p)
		urls = append(urls, "nats://"+p.Address)
	}
	skew := "10m" // of an api's clock; a worker's is as far back
	if name == "worker" {
		skew = "-10m"
	}
	own := map[string]string{"SUPPLYHUB_TEST_CLOCK": skew, "DATABASE_URL": "postgres://supplyhub@" + toDatabase.Address +
		fmt.Sprintf("/postgres?sslmode=disable&application_name=%s-%d", name, len(*database)-1),
		"NATS_URL": strings.Join(urls, ",")}
	switch {
	case name == "api" && c.firstAPI == "":
		c.firstAPI = freeAddress(c.t)
		own["HTTP_ADDR"] = c.firstAPI
	case name == "worker":
		p := apptest.NewProxy(c.t, "tcp", c.firstAPI)
		c.toOwn = append(c.toOwn, p)
		own["ESTIMATES_WEBHOOK_BASE_URL"] = "http://" + p.Address
	}
	return own
}

func (c *chaos) connections() []*apptest.Proxy {
	return slices.Concat(c.apiDatabase, c.workerDatabase, c.apiNATS, c.workerNATS, c.toOwn, []*apptest.Proxy{c.toReceiver})
}

// outcome is what one fault did.
type outcome struct {
	accepted, lost, delivered, doubled, twoIDs int
	settled                                    time.Duration // from the last request to the last delivery
	silence                                    time.Duration // the healthy supplier's longest while the fault lasted
}

func (o outcome) String() string {
	return fmt.Sprintf("%6d accepted  %d lost  %6d delivered  %3d more than once  %d under two webhook ids  "+
		"settled in %.1f s  longest silence %.1f s",
		o.accepted, o.lost, o.delivered, o.doubled, o.twoIDs, o.settled.Seconds(), o.silence.Seconds())
}

// under sends requests while fault is at work, waits until all is done, and fails when something is lost.
func (c *chaos) under(name string, fault func(*chaos)) outcome {
	c.t.Helper()
	l := c.startClients()
	l.reaches(c.t, aroundFault())
	var silence time.Duration
	if c.pulse != nil { // a full disk serves no one
		c.pulse.begin()
	}
	fault(c)
	if c.pulse != nil {
		silence = c.pulse.end()
	}
	l.reaches(c.t, aroundFault())
	accepted := l.end()
	var o outcome
	begin := time.Now()
	for end := begin.Add(settleTime()); ; time.Sleep(50 * time.Millisecond) {
		o = c.receiver.outcome(accepted)
		o.lost = max(o.lost, len(accepted)-c.estimated(accepted))
		if o.lost == 0 || time.Now().After(end) {
			break
		}
	}
	o.settled, o.silence = time.Since(begin), silence
	fmt.Printf("%-46s %s\n", name, o)
	if o.lost > 0 || o.twoIDs > 0 {
		c.t.Errorf("%s: %s\n%s", name, o, strings.Join(c.left(), "\n"))
	}
	return o
}

// estimated is how many of the accepted requests have estimates.
func (c *chaos) estimated(accepted map[int64]bool) int {
	n := 0
	for _, status := range []string{"enqueued", "failed"} {
		without, known := c.with(status, accepted)
		if !known {
			return 0 // the service is not back yet
		}
		n += without
	}
	return len(accepted) - n
}

// with is how many of the accepted requests have the status.
func (c *chaos) with(status string, accepted map[int64]bool) (n int, known bool) {
	for cursor := ""; ; {
		a := c.supplier.Do(c.t, http.MethodGet, requests+"?limit=100&status="+status+cursor, nil)
		if a.Status != http.StatusOK {
			return 0, false
		}
		page := apptest.Decode[listing](c.t, a)
		for _, r := range page.Data {
			if accepted[r.ID] {
				n++
			}
		}
		if page.Next == "" {
			return n, true
		}
		cursor = "&cursor=" + page.Next
	}
}

// clients send requests as suppliers do, each one until it is accepted.
type clients struct {
	load
	mu  sync.Mutex
	ids map[int64]bool // accepted
}

func (c *chaos) startClients() *clients {
	ctx, stop := context.WithCancel(c.t.Context())
	l := &clients{load: load{stop: stop}, ids: map[int64]bool{}}
	for caller := range chaosCallers {
		l.group.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(chaosPause()) {
				id := nextID()
				for attempt := caller; !post(c.t, c.hub, attempt, c.supplier, id); attempt++ {
					if c.t.Failed() {
						return
					}
					time.Sleep(retryPause)
				}
				l.mu.Lock()
				l.ids[id] = true
				l.mu.Unlock()
				l.accepted.Add(1)
			}
		})
	}
	return l
}

// end stops the clients once each has its last request accepted.
func (l *clients) end() map[int64]bool {
	l.stop()
	l.group.Wait()
	return l.ids
}

// countingReceiver checks every call's signature and counts the deliveries of each request by their webhook ids.
type countingReceiver struct {
	url    string
	mu     sync.Mutex
	secret webhook.Secret
	clocks []time.Duration // how far the database's clock was off
	calls  map[int64]map[string]int
}

func newCountingReceiver(t *testing.T) *countingReceiver {
	t.Helper()
	r := &countingReceiver{calls: map[int64]map[string]int{}}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		body, err := io.ReadAll(request.Body)
		if err != nil {
			return // cut on the way: nothing was delivered
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		id, err := r.verify(request.Header, body)
		if err != nil {
			t.Errorf("the receiver refuses a call: %v", err)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		e := apptest.Decode[webhook.Event](t, apptest.Answer{Body: body})
		if r.calls[e.Data.RequestID] == nil {
			r.calls[e.Data.RequestID] = map[string]int{}
		}
		r.calls[e.Data.RequestID][id]++
	}))
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

// verify takes a call that is signed by any of the clocks that the database has had.
func (r *countingReceiver) verify(header http.Header, body []byte) (id string, err error) {
	for _, wrong := range append(r.clocks, 0) {
		if id, err = webhook.Verify(header, body, time.Now().Add(wrong), r.secret); err == nil {
			break
		}
	}
	return id, err
}

func (r *countingReceiver) expect(s webhook.Secret) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.secret = s
}

func (r *countingReceiver) outcome(accepted map[int64]bool) outcome {
	r.mu.Lock()
	defer r.mu.Unlock()
	o := outcome{accepted: len(accepted)}
	for id := range accepted {
		calls := r.calls[id]
		switch {
		case len(calls) == 0:
			o.lost++
			continue
		case len(calls) > 1:
			o.twoIDs++
		case slices.Max(slices.Collect(maps.Values(calls))) > 1:
			o.doubled++
		}
		o.delivered++
	}
	return o
}
