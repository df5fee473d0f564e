// Package materials owns the life of a material request: validated, made durable, estimated, selected.
// It sends nothing itself: work goes to its Publisher, events to its Outbox.
package materials

import (
	"context"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Publisher puts a piece of work on the queue. It never blocks: work that is lost on the way is found by the sweeper.
type Publisher interface {
	Publish(subject string, body []byte)

	// Backlog is what the queue holds. An error says that it is unavailable.
	Backlog(ctx context.Context) (Backlog, error)
}

// Outgoing is one event for the outbox. The same round twice is one event.
type Outgoing struct {
	Round       round.Round
	TraceID     string
	TraceParent string // the span of the call that caused it; empty: it is not traced
	Event       webhook.Event
	Body        []byte // the event as JSON
}

// Outbox stores events for sending.
type Outbox interface {
	// Add stores the events in the caller's transaction and has them sent once it is committed. stored are the rounds
	// whose events were stored before: these stay as they are.
	Add(ctx context.Context, events []Outgoing) (stored []round.Round, err error)

	// Reserve waits a moment when more is added than can be sent, and returns how many events to add next; done ends that.
	Reserve(want int) (n int, done func())

	// Forget deletes, in the caller's transaction, the events of all rounds of the requests, with their deliveries, and
	// returns how many events they were. latest are the rounds that the requests are in.
	Forget(ctx context.Context, latest []round.Round) (events int64, err error)

	// RoundOf returns the numbers of an own delivery that was made before webhook-ids followed from rounds.
	RoundOf(ctx context.Context, webhookID string) (uid, number int64, own bool, err error)
}

// Catalogue tells what is known of a supplier's products, by SKU; unknown ones are absent.
type Catalogue interface {
	Products(ctx context.Context, supplierID string, skus []string) (map[string]estimates.Product, error)
}

// Estimator computes the delivery estimates of one request. Another one, a carrier's API, can be put in.
type Estimator interface {
	Estimate(ctx context.Context, request estimates.Request) (estimates.Result, error)
}

// Deps is what the room is built from.
type Deps struct {
	DB        *database.DB
	Log       *slog.Logger
	Now       func() time.Time
	Publisher Publisher
	Outbox    Outbox
	Catalogue Catalogue
	Estimator Estimator
	Secrets   []webhook.Secret // the service's own: any of them may have signed an incoming event
	Ledger    *RequestLedger   // records that an estimation failed for good
	Flushers  int              // concurrent group commits; 1 on SQLite
	// the span that ctx is in, as W3C Trace Context writes it; nil: nothing is traced
	TraceParent func(ctx context.Context) string
	// the waits between the estimations of a round while something they need is unavailable
	Schedule []time.Duration
}
