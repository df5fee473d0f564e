// Package materials owns the lifecycle of a material request: validated, made durable, its estimates received, one
// selected. What is to be estimated goes to its Publisher; package work estimates it.
package materials

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// Queued is a round that is to be estimated, under the ticket that its row has.
type Queued struct {
	round.Round
	Ticket int64
}

// Publisher queues rounds that were stored together. It never blocks: what is lost on the way is found by the sweeper.
type Publisher interface {
	Publish(rounds ...Queued)
}

// Outbox has the events of requests.
type Outbox interface {
	// RoundOf returns the numbers of the round whose delivery has the webhook-id, and whether it goes to the own endpoint;
	// a number of 0 when there is none.
	RoundOf(ctx context.Context, webhookID string) (uid, number int64, own bool, err error)
	// BodyOf returns the SQL expression of the body of a round's event; null: it is not stored. It is given those of the
	// supplier's id, the request's uid and the round's number.
	BodyOf(supplier, uid, number string) string
	// BodyOfOne is BodyOf for a statement that reads one request.
	BodyOfOne(supplier, uid, number string) string
}

// Deps is what the package is built from.
type Deps struct {
	DB        *database.DB
	Log       *slog.Logger
	Now       func() time.Time
	Publisher Publisher
	Outbox    Outbox
	Secrets   []webhook.Secret // the service's own: any of them may have signed an incoming event
	Proofs    caller.Proofs    // that it is the service's own
	Flushers  int              // concurrent group commits; 1 on SQLite
	// the span that ctx is in, as W3C Trace Context writes it; nil: nothing is traced
	TraceParent func(ctx context.Context) string
	// begins the span of a batch whose members come from these spans, and returns its end; nil: nothing is traced
	Batch func(ctx context.Context, name string, members []string) (context.Context, func(error))
	// links the span that ctx is in to another one; nil: nothing is traced
	Link func(ctx context.Context, other string)
}

// Service implements the lifecycle of material requests. It is safe for concurrent use.
type Service struct {
	deps     Deps
	store    *store
	intake   *groupcommit.Batcher[intakeItem, intakeResult]
	receipts *groupcommit.Batcher[receiptItem, receiptResult]
	waiters  *waiters
}

// New builds the service and starts its group commits; Close ends them.
func New(deps Deps) *Service {
	if deps.TraceParent == nil {
		deps.TraceParent = logctx.TraceParent
	}
	s := &Service{deps: deps, store: &store{db: deps.DB, events: deps.Outbox}}
	s.intake, s.receipts = newIntakeBatcher(s), newReceiptBatcher(s)
	s.waiters = newWaiters(s.store.left)
	return s
}

// Close refuses new writes, finishes those begun and waits for them.
func (s *Service) Close() {
	s.waiters.close()
	s.intake.Close()
	s.receipts.Close()
}

// Page returns one page of a supplier's requests, newest first, and how many there are; a nil status means any.
func (s *Service) Page(ctx context.Context, supplierID string, status *Status, page httpapi.Page) (
	total int64, records []Record, err error) {
	l, err := s.store.list(ctx, supplierID, status, page.Size, page.Offset())
	if err != nil {
		return 0, nil, err
	}
	for part, err := range l.records(ctx) {
		if err != nil {
			return 0, nil, err
		}
		records = slices.Concat(records, part)
	}
	return l.total, records, nil
}

// Find returns one request of the supplier. Errors: errs.NotFound.
func (s *Service) Find(ctx context.Context, supplierID string, id int64) (Record, error) {
	return s.store.find(ctx, supplierID, id)
}

// Round returns the round that a request of the supplier is in. Errors: errs.NotFound.
func (s *Service) Round(ctx context.Context, supplierID string, id int64) (round.Round, error) {
	return s.store.round(ctx, requestKey{supplierID, id})
}

// Choose chooses an estimate, as PATCH selected-estimate does. Errors: errs.NotFound, errs.Conflict,
// errs.Unprocessable.
func (s *Service) Choose(ctx context.Context, supplierID string, id int64, estimateID string) (time.Time, error) {
	return s.selectEstimate(ctx, requestKey{supplierID, id}, estimateID)
}

// Estimate asks for fresh estimates, as POST re-estimate does. Errors: errs.NotFound, errs.Conflict.
func (s *Service) Estimate(ctx context.Context, supplierID string, id int64) error {
	return s.reestimate(ctx, requestKey{supplierID, id})
}
