// Package materials owns the lifecycle of a material request: it is validated and made durable, its estimates are
// received, and one is selected. A round that is to be estimated goes to its Publisher; package work estimates it.
package materials

import (
	"context"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// The life of a request, file by file: http.go takes it, request.go checks it, intake.go stores it; package work
// estimates it and package sending sends its event; http_estimates.go and receipts.go take the estimates;
// selection.go and state.go move it on; store_list.go shows it. The row of the request is the only truth about its
// state. Every move is a statement that names the state, or the round, that it moves from, so that of two processes
// that do the same one changes something.
//
// Service is built once a process. Its batches and its waiters are the only goroutines that it has, and Close ends
// them.

// Publisher names rounds that were stored together to the workers that own them. It never blocks: a round whose name is
// lost on the way is found due.
type Publisher interface {
	Publish(rounds ...round.Round)
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
	Cursors   cursor.Sealer
	// the span that ctx is in, as W3C Trace Context writes it; nil: nothing is traced
	TraceParent func(ctx context.Context) string
}

// Service implements the lifecycle of material requests. It is safe for concurrent use.
type Service struct {
	deps     Deps
	store    *store
	intake   *groupcommit.Batcher[intakeItem, bool]
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

// List returns a page of a supplier's requests, of a status when it is given, the newest first, and the cursor of the
// next page; empty: that was all. errs.Invalid: the query's cursor is not one of this list.
func (s *Service) List(ctx context.Context, filter Filter, query httpapi.ListQuery) (
	page []Overview, next string, err error) {
	behind, list := int64(Newest), s.cursors(filter)
	if violations := query.Open(list, &behind); len(violations) > 0 {
		return nil, "", errs.InvalidInput("The parameters are not valid.", violations...)
	}
	page, last, err := s.store.overviews(ctx, filter, behind, query.Limit)
	if last > 0 {
		next = list.Seal(last)
	}
	return page, next, err
}

// Overviews returns a page of the requests that the filter chooses behind a uid, the newest first, and the uid behind
// which the next page begins; 0: that was all. A page may be short, or empty, where it looked at many others.
func (s *Service) Overviews(ctx context.Context, filter Filter, behind int64, limit int) (
	page []Overview, next int64, err error) {
	return s.store.overviews(ctx, filter, behind, limit)
}

// OfID returns at most limit of the requests of an id, of which every supplier may have one.
func (s *Service) OfID(ctx context.Context, id int64, limit int) ([]Overview, error) {
	return s.store.ofID(ctx, id, limit)
}

// Traced returns at most limit of the newest requests that came with the X-Request-Id.
func (s *Service) Traced(ctx context.Context, traceID string, limit int) ([]Overview, error) {
	return s.store.traced(ctx, traceID, limit)
}

// cursors returns the list that the cursors of a supplier's requests belong to.
func (s *Service) cursors(filter Filter) cursor.List {
	return s.deps.Cursors.List("requests", filter.SupplierID, string(filter.Status))
}

// Find returns one request of the supplier. Errors: errs.NotFound.
func (s *Service) Find(ctx context.Context, supplierID string, id int64) (Record, error) {
	return s.store.find(ctx, supplierID, id, anySize)
}

// FindWithin is Find, for httpapi.ReadOne.
func (s *Service) FindWithin(ctx context.Context, supplierID string, id int64, fits func(size int64) bool) (
	Record, error) {
	return s.store.find(ctx, supplierID, id, fits)
}

// Round returns the round that a request of the supplier is in. Errors: errs.NotFound.
func (s *Service) Round(ctx context.Context, supplierID string, id int64) (round.Round, error) {
	current, _, err := s.store.round(ctx, requestKey{supplierID, id})
	return current, err
}
