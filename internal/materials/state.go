package materials

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/round"
)

// The states of a request and the moves between them. intake.go makes enqueued; receipts.go moves to estimated;
// selection.go to selected. The other moves are here: the sender or the estimator gives a round up (Fail, MarkFailed),
// an operator redelivers it (MarkRedelivered), and a supplier or an operator asks for another round (Estimate, Reopen).
// Each is one conditional UPDATE that names the round: one that comes too late changes nothing.

// Status is the state of a material request in its life:
//
//	                  estimates received          an estimate chosen
//	[POST] → enqueued ───────────────→ estimated ───────────────────→ selected
//	          │    ↑  ←─────────────── ↑      ↺ newer estimates replace the old ones
//	 estimation    │  re-estimate      │
//	 or delivery   │                   │
//	 given up ↓    │ re-estimate, or   │ estimates received after all
//	         failed  redelivered ──────┘
type Status string

// The states of a material request.
const (
	Enqueued  Status = "enqueued"  // durable; its estimates are being made or delivered
	Estimated Status = "estimated" // its estimates are stored
	Selected  Status = "selected"  // one of its estimates was chosen; final
	Failed    Status = "failed"    // could not be estimated, or not delivered in the whole schedule
)

// WhyFailed returns what is stored as why a request is failed; nil in any other state.
func (s Status) WhyFailed(failure string) *string {
	if s != Failed {
		return nil
	}
	return &failure
}

// Valid reports whether s is one of the four states.
func (s Status) Valid() bool {
	return slices.Contains([]Status{Enqueued, Estimated, Selected, Failed}, s)
}

// CanBecome reports whether the move from s to next is legal.
func (s Status) CanBecome(next Status) bool {
	return slices.Contains(map[Status][]Status{
		Enqueued:  {Estimated, Failed},
		Estimated: {Estimated, Selected, Enqueued},
		Failed:    {Enqueued, Estimated},
	}[s], next)
}

// Why a request is failed whose estimates never arrived, in words for the supplier.
const (
	failureUndelivered = "The delivery estimates were computed " +
		"and could not be delivered in the whole retry schedule."
	failureRefused = "The delivery estimates were computed, and the delivery-estimates webhook refused them."
)

// Notifier stores notices for the operator; it joins the transaction in ctx.
type Notifier interface {
	Note(ctx context.Context, notices ...notice.Notice) error
}

// RequestLedger records on a request what became of its round: that it failed, or is redelivered. It needs nothing of
// the sender, so that the sender can be built over it. It is safe for concurrent use.
type RequestLedger struct {
	store    *store
	log      *slog.Logger
	now      func() time.Time
	notifier Notifier
}

// NewRequestLedger returns a ledger that notifies the operator of failed requests; nil: it does not.
func NewRequestLedger(db *database.DB, log *slog.Logger, now func() time.Time, notifier Notifier) *RequestLedger {
	return &RequestLedger{store: &store{db: db}, log: log, now: now, notifier: notifier}
}

// MarkFailed moves the round's request from enqueued to failed, because its event could not be delivered in the whole
// schedule; in any other state or round it does nothing. reason is for the log. It joins the transaction in ctx.
func (l *RequestLedger) MarkFailed(ctx context.Context, r round.Round, reason string) error {
	return l.giveUp(ctx, r, failureUndelivered, reason)
}

// MarkRefused is MarkFailed after an answer that is final.
func (l *RequestLedger) MarkRefused(ctx context.Context, r round.Round, reason string) error {
	return l.giveUp(ctx, r, failureRefused, reason)
}

func (l *RequestLedger) giveUp(ctx context.Context, r round.Round, failure, reason string) error {
	traceID, moved, err := l.Fail(ctx, r, failure, reason)
	if err == nil && moved {
		l.log.WarnContext(logctx.WithRequest(ctx, r.SupplierID, r.RequestID, traceID), "material request failed",
			"reason", reason)
	}
	return errs.Doing("mark material request failed", err)
}

// MarkRedelivered moves the rounds' requests from failed back to enqueued, because an operator has their events
// delivered again; in any other state or round it does nothing. It joins the transaction in ctx. They do not become
// due: the round is estimated already, and its event is on its way.
func (l *RequestLedger) MarkRedelivered(ctx context.Context, rounds ...round.Round) error {
	moved, err := l.store.redelivered(ctx, rounds, l.now())
	if err != nil {
		return fmt.Errorf("mark material requests redelivered: %w", err)
	}
	for _, row := range moved {
		l.log.InfoContext(logctx.WithRequest(ctx, row.SupplierID, row.ID, row.TraceID), "material request is redelivered")
	}
	return nil
}

// Fail moves the round's request from enqueued to failed and notifies the operator; moved is false when it was not
// enqueued in this round. sentence is for the supplier, cause for the operator. It joins the transaction in ctx: the
// one that makes the delivery dead, so that no request waits for what nothing sends any more.
func (l *RequestLedger) Fail(ctx context.Context, r round.Round, sentence, cause string) (
	traceID string, moved bool, err error) {
	err = l.store.db.InTx(ctx, "fail a request", func(ctx context.Context) (err error) {
		if traceID, moved, err = l.store.fail(ctx, r, sentence, l.now()); err != nil || !moved || l.notifier == nil {
			return err
		}
		return l.notifier.Note(ctx, notice.Notice{
			Type: notice.RequestFailed, SupplierID: r.SupplierID, Subject: strconv.FormatInt(r.RequestID, 10), Error: cause,
		})
	})
	return traceID, moved, err
}

// Estimate asks for fresh estimates: the request is enqueued again for its next round, whose event has a key and
// estimate ids of its own, and the X-Request-Id and span of this call. A request that is enqueued already stays as it
// is: its fresh estimates are on the way.
// errs.NotFound: no such request of the supplier; errs.Conflict: an estimate is selected.
func (s *Service) Estimate(ctx context.Context, supplierID string, id int64) error {
	trace := traced{logctx.RequestID(ctx), s.deps.TraceParent(ctx)}
	is, err := s.again(ctx, requestKey{supplierID, id}, trace, Estimated, Failed)
	if err == nil && is == Selected {
		return errs.New(errs.Conflict, "An estimate of this request is selected already.")
	}
	return errs.Doing("re-estimate", err)
}

// Reopen enqueues a failed request again, for its next round. errs.NotFound: no such request of the supplier;
// errs.Conflict: it is not failed. An event of the round before that is still on its way changes nothing any more when
// it arrives.
func (s *Service) Reopen(ctx context.Context, supplierID string, requestID int64) error {
	is, err := s.again(ctx, requestKey{supplierID, requestID}, traced{}, Failed)
	if err == nil && is != "" {
		return errs.New(errs.Conflict, "The request is not failed.")
	}
	return errs.Doing("reopen", err)
}

// again begins the next round of a request that is in one of the states. For a request in any other state it returns
// that. The round is published after the COMMIT, like a request that was just accepted; where that is lost its owner
// finds it due.
func (s *Service) again(ctx context.Context, key requestKey, trace traced, from ...Status) (is Status, err error) {
	next, moved, err := s.store.nextRound(ctx, key, trace, s.deps.Now(), from...)
	if moved {
		s.deps.Publisher.Publish(next)
	}
	if err != nil || moved {
		return "", err
	}
	_, is, err = s.store.round(ctx, key)
	return is, err
}
