// Package work estimates what was accepted. The row of a request says when its estimation is due, and its supplier's
// shard says which worker makes it. That worker looks for due rows once a second; a message lets it begin within
// milliseconds. It hands the events to the Outbox.
package work

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Outbox stores events for sending.
type Outbox interface {
	// Add stores the events in the caller's transaction and has them sent once it is committed. stored are the rounds
	// whose events were stored before: these stay as they are.
	Add(ctx context.Context, events []round.Outgoing) (stored []round.Round, err error)

	// Stored returns those of the rounds whose events are stored.
	Stored(ctx context.Context, rounds []round.Round) ([]round.Round, error)

	// Reserve waits a moment when more is added than can be sent, and returns how many events to add next; done ends that.
	Reserve(want int) (n int, done func())
}

// Catalogue returns what is known of the suppliers' products; unknown ones are absent.
type Catalogue interface {
	Products(ctx context.Context, keys []estimates.ProductKey) (map[estimates.ProductKey]estimates.Product, error)
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
	Publish   func(round.Message)
	Arrives   func() bool // whether messages come at all; nil: they do
	Outbox    Outbox
	Catalogue Catalogue
	Estimator Estimator
	Ledger    *materials.RequestLedger // records that an estimation failed permanently
	Flushers  int                      // concurrent batches; 1 on SQLite
	AtOnce    int                      // estimations that may be under way; 0: 1024
	// the waits between the estimations of a round while something they need is unavailable
	Schedule []time.Duration
}

// Service publishes rounds and, in a worker, estimates them. It is safe for concurrent use.
//
// Run has one goroutine for each batch that is written side by side and one that looks; each estimation has one while
// it lasts. They share the hand, which has a lock of its own.
type Service struct {
	deps  Deps
	store *store
	hand  *hand
	late  *groupcommit.Batcher[*pending, struct{}] // stores what was too slow for its batch

	estimating sync.WaitGroup // estimations that outlast their batch
	looking    looker
}

// New builds a Service; Close releases it.
func New(deps Deps) *Service {
	if deps.Arrives == nil {
		deps.Arrives = func() bool { return true }
	}
	if deps.AtOnce == 0 {
		deps.AtOnce = defaultAtOnce
	}
	s := &Service{deps: deps, store: &store{deps.DB}, hand: newHand(deps.AtOnce),
		looking: looker{fresh: map[int]bool{}, now: make(chan struct{}, 1), after: map[int]string{}, whole: true}}
	s.late = groupcommit.New(deps.Flushers, workBatch, 0, s.flushLate)
	return s
}

// Wait waits for the estimations that outlast the Work that began them.
func (s *Service) Wait() { s.estimating.Wait() }

// Close waits for what Run or Work began.
func (s *Service) Close() {
	s.Wait()
	s.late.Close()
}

// Publish names the rounds to their suppliers' owners, in one message a shard. A lost message is no loss: the
// owner finds its rounds due.
func (s *Service) Publish(rounds ...round.Round) {
	for _, m := range round.Messages(rounds) {
		s.deps.Publish(m)
	}
}

// Take puts the rounds of a message in hand. It does not block; a round without room is found due later.
func (s *Service) Take(rounds []round.Round) {
	s.looking.lost.Store(0)
	s.hand.add(rounds)
}

// Run estimates, until ctx ends, what is put in hand and what is due to the shards that Own names. Then nothing new is
// begun, and it returns when what was begun is done.
func (s *Service) Run(ctx context.Context) error {
	var batches sync.WaitGroup
	for range s.deps.Flushers {
		batches.Go(func() { s.workOff(ctx) })
	}
	stop := context.AfterFunc(ctx, s.hand.close)
	defer stop()
	s.look(ctx)
	batches.Wait()
	s.Wait()
	return nil
}
