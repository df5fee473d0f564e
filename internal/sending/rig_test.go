package sending_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sending"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// call is a request that a receiver got.
type call struct {
	path   string
	header http.Header
	body   []byte
	at     time.Time
}

// receiver is a real HTTP server that answers as the test says.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	calls  []call
	answer func(n int, w http.ResponseWriter, r *http.Request) // n counts from 1; nil: 200
}

func newReceiver(tb testing.TB, answer func(n int, w http.ResponseWriter, r *http.Request)) *receiver {
	tb.Helper()
	r := &receiver{answer: answer}
	r.Server = httptest.NewServer(http.HandlerFunc(r.serve))
	tb.Cleanup(r.Close)
	return r
}

func (r *receiver) serve(w http.ResponseWriter, request *http.Request) {
	body, _ := io.ReadAll(request.Body)
	r.mu.Lock()
	r.calls = append(r.calls, call{request.URL.Path, request.Header.Clone(), body, time.Now()})
	n, answer := len(r.calls), r.answer
	r.mu.Unlock()
	if answer != nil {
		answer(n, w, request)
	}
}

func (r *receiver) got() []call {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]call{}, r.calls...)
}

func status(code int) func(int, http.ResponseWriter, *http.Request) {
	return func(_ int, w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

// suppliers are the receivers by supplier.
type suppliers struct {
	mu    sync.Mutex
	known map[string]receivers.Receiver
}

func (s *suppliers) Receivers(_ context.Context, ids []string) (map[string]receivers.Receiver, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := map[string]receivers.Receiver{}
	for _, id := range ids {
		if r, ok := s.known[id]; ok {
			found[id] = r
		}
	}
	return found, nil
}

// learn makes a supplier's receiver known, also to a dispatcher that runs.
func (s *suppliers) learn(id, url string, secret webhook.Secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[id] = receivers.Receiver{URL: url, Secrets: []webhook.Secret{secret}, Active: true, Concurrency: 64}
}

// limit changes how many calls a supplier's receiver takes at once.
func (s *suppliers) limit(id string, calls int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.known[id]
	r.Concurrency = calls
	s.known[id] = r
}

// concurrency counts the calls that are under way, and the most of them at once.
type concurrency struct{ now, most atomic.Int64 }

// enter counts a call until it leaves.
func (c *concurrency) enter() (leave func()) {
	n := c.now.Add(1)
	for m := c.most.Load(); n > m && !c.most.CompareAndSwap(m, n); m = c.most.Load() {
	}
	return func() { c.now.Add(-1) }
}

// ledger notes what it is called with.
type ledger struct {
	mu     sync.Mutex
	events []string
	fail   error
}

func (l *ledger) MarkFailed(_ context.Context, r round.Round, reason string) error {
	return l.note(fmt.Sprintf("failed %s/%d: %s", r.SupplierID, r.RequestID, reason))
}

func (l *ledger) MarkRefused(_ context.Context, r round.Round, reason string) error {
	return l.note(fmt.Sprintf("refused %s/%d: %s", r.SupplierID, r.RequestID, reason))
}

func (l *ledger) MarkRedelivered(_ context.Context, rounds ...round.Round) (err error) {
	for _, r := range rounds {
		err = errors.Join(err, l.note(fmt.Sprintf("reopened %s/%d", r.SupplierID, r.RequestID)))
	}
	return err
}

func (l *ledger) note(event string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, event)
	return l.fail
}

// failWith makes its calls fail from now on, or succeed again with nil.
func (l *ledger) failWith(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.fail = err
}

func (l *ledger) noted() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return append([]string{}, l.events...)
}

// rig is a dispatcher over a database with an own endpoint and the receiver of one supplier, acme.
type rig struct {
	*sending.Dispatcher
	tb        testing.TB
	db        *database.DB
	own       *receiver
	acme      *receiver
	suppliers *suppliers
	ledger    *ledger
	secret    webhook.Secret // acme's
	ownSecret webhook.Secret
}

type setup struct {
	own, acme func(int, http.ResponseWriter, *http.Request)
	deps      func(*sending.Deps)
	idle      bool // Run is not started
}

func newRig(tb testing.TB, db *database.DB, s setup) *rig {
	tb.Helper()
	r := &rig{tb: tb, db: db, own: newReceiver(tb, s.own), acme: newReceiver(tb, s.acme), ledger: &ledger{},
		secret: webhook.NewSecret(), ownSecret: webhook.NewSecret()}
	r.suppliers = &suppliers{known: map[string]receivers.Receiver{"acme": {URL: r.acme.URL + "/base/",
		Secrets: []webhook.Secret{r.secret}, Active: true, Concurrency: 64}}}
	deps := sending.Deps{
		DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now, Destinations: r.suppliers, Ledger: r.ledger,
		BaseURL:    r.own.URL,
		OwnSecrets: []webhook.Secret{r.ownSecret}, Timeout: time.Minute, AllowPrivate: true, Concurrency: 16,
		Schedule: []time.Duration{20 * time.Millisecond, 20 * time.Millisecond},
	}
	if s.deps != nil {
		s.deps(&deps)
	}
	r.Dispatcher = sending.New(deps)
	tb.Cleanup(r.Close)
	if !s.idle {
		r.start()
	}
	return r
}

// start runs the dispatcher until the test ends, or the returned stop is called.
func (r *rig) start() (stop func() error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stop = sync.OnceValue(func() error {
		cancel()
		return <-done
	})
	r.tb.Cleanup(func() {
		if err := stop(); err != nil {
			r.tb.Log(err)
		}
	})
	return stop
}

// event is that of a round of a request; the uid follows from supplier and id.
func event(supplier string, id, number int64) round.Outgoing {
	uid := id
	for _, letter := range supplier {
		uid = uid*131 + int64(letter)
	}
	return round.Outgoing{
		Round: round.Round{SupplierID: supplier, RequestID: id, UID: uid & math.MaxUint32,
			Number: number}, TraceID: fmt.Sprintf("trace-%d", id),
		Event: webhook.Event{Type: webhook.TypeEstimated, Timestamp: time.Unix(1795000000, 0).UTC(), Data: webhook.Data{
			SupplierID: supplier, RequestID: id, Estimates: []webhook.Estimate{}, Unavailable: []webhook.Unavailable{},
		}},
	}
}

var errRollback = errors.New("rolled back on purpose")

// add stores events in a transaction, whose end sends what it began.
func (r *rig) add(events ...round.Outgoing) {
	r.tb.Helper()
	err := r.db.InTx(context.Background(), "test", func(ctx context.Context) error {
		_, err := r.Add(ctx, events)
		return err
	})
	if err != nil {
		r.tb.Fatal(err)
	}
}

func (r *rig) list(filter deliveries.Filter) []deliveries.Delivery {
	r.tb.Helper()
	var found []deliveries.Delivery
	err := r.Each(context.Background(), filter, 0, func(d deliveries.Delivery) error {
		found = append(found, d)
		return nil
	})
	if err != nil {
		r.tb.Fatal(err)
	}
	return found
}

func (r *rig) statuses() map[string]deliveries.Status {
	statuses := map[string]deliveries.Status{}
	for _, d := range r.list(deliveries.Filter{}) {
		statuses[d.Destination] = d.Status
	}
	return statuses
}

// settled waits until nothing is pending.
func (r *rig) settled() {
	r.tb.Helper()
	wait.Until(r.tb, "everything is settled",
		func() bool { return len(r.list(deliveries.Filter{Status: deliveries.Pending})) == 0 })
}

func (r *rig) show(destination string) *deliveries.Detail {
	r.tb.Helper()
	for _, d := range r.list(deliveries.Filter{}) {
		if d.Destination == destination {
			detail, err := r.Show(context.Background(), d.ID)
			if err != nil {
				r.tb.Fatal(err)
			}
			return detail
		}
	}
	r.tb.Fatalf("there is no delivery to %s", destination)
	return nil
}
