// Package work estimates what was accepted: rounds travel through the queue in messages, a worker estimates them and
// hands their events to the Outbox. The database is the truth: the sweeper queues again what no message holds, and an
// idle worker takes what waits from the database itself.
package work

import (
	"context"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Queue holds messages, first in, first out.
type Queue interface {
	// Publish never blocks; a message may be lost.
	Publish(subject string, body []byte)

	// Backlog returns what the queue holds under the subjects. An error means that it is unavailable or takes nothing.
	Backlog(ctx context.Context, subjects string) (round.Backlog, error)
}

// Outbox stores events for sending.
type Outbox interface {
	// Add stores the events in the caller's transaction and has them sent once it is committed. stored are the rounds
	// whose events were stored before: these stay as they are.
	Add(ctx context.Context, events []round.Outgoing) (stored []round.Round, err error)

	// Reserve waits a moment when more is added than can be sent, and returns how many events to add next; done ends that.
	Reserve(want int) (n int, done func())
}

// Catalogue returns what is known of a supplier's products, by SKU; unknown ones are absent.
type Catalogue interface {
	Products(ctx context.Context, supplierID string, skus []string) (map[string]estimates.Product, error)
}

// Estimator computes the delivery estimates of one request. Another one, such as a carrier's API, can be put in.
type Estimator interface {
	Estimate(ctx context.Context, request estimates.Request) (estimates.Result, error)
}

// Deps is what a Service is built from.
type Deps struct {
	DB        *database.DB
	Log       *slog.Logger
	Now       func() time.Time // the database's
	Local     func() time.Time // this process's, for what lasts within it
	Queue     Queue
	Outbox    Outbox
	Catalogue Catalogue
	Estimator Estimator
	Ledger    *materials.RequestLedger // records that an estimation failed permanently
	Flushers  int                      // concurrent batches; 1 on SQLite
	// begins the span of a batch whose members come from these spans, and returns its end; nil: nothing is traced
	Batch func(ctx context.Context, name string, members []string) (context.Context, func(error))
	// the waits between the estimations of a round while something they need is unavailable
	Schedule []time.Duration
}

// Service queues and estimates rounds. It is safe for concurrent use.
type Service struct {
	deps   Deps
	store  *store
	worker *groupcommit.Batcher[[]round.Round, struct{}]

	undelivered undelivered
}

// New builds a Service; Close releases it.
func New(deps Deps) *Service {
	s := &Service{deps: deps, store: &store{deps.DB}}
	s.worker = newWorkerBatcher(s)
	return s
}

// Close refuses new work, finishes what was begun and waits for it.
func (s *Service) Close() { s.worker.Close() }
