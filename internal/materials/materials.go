// Package materials owns the life of a material request: validated, made durable, estimated, selected.
// It sends nothing itself: work goes to its Publisher, events to its Outbox.
package materials

import (
	"context"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Publisher puts a piece of work on the queue. It never blocks: work that is lost on the way is found by the sweeper.
type Publisher interface {
	Publish(subject string, body []byte)

	// Oldest is when the first of the work was queued that is not done. What was published before that is not queued.
	Oldest(ctx context.Context) (at time.Time, queued bool)
}

// Outgoing is one event for the outbox. Key is supplier/request/round: the same key twice is one event.
type Outgoing struct {
	Key     string
	TraceID string
	Event   webhook.Event
	Body    []byte // the event as JSON
}

// Outbox stores events for sending, inside the caller's transaction; one whose key is stored already stays as it is. The
// returned function, called after the commit, sends the new ones at once; a crash before it only delays them. Stored
// tells under which of the keys events are stored. Reserve waits a moment when more is added than can
// be sent, and tells how many events to add next; done ends that.
type Outbox interface {
	Add(ctx context.Context, events []Outgoing) (send func(), err error)
	Reserve(want int) (n int, done func())
	Stored(ctx context.Context, keys []string) (map[string]bool, error)
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
	Bearer    Authenticator    // for the receiving end of the events
	Secrets   []webhook.Secret // the service's own: any of them may have signed an incoming event
	Flushers  int              // concurrent group commits; 1 on SQLite
}
