package materials

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/round"
)

// failureUndelivered is why a request is failed whose estimates never arrived, in words for the supplier.
const failureUndelivered = "The delivery estimates were computed " +
	"and could not be delivered in the whole retry schedule."

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

// MarkFailed moves the round's request from enqueued to failed, because its event could not be delivered; in any other
// state or round it does nothing. reason is for the log. It joins the transaction in ctx.
func (l *RequestLedger) MarkFailed(ctx context.Context, r round.Round, reason string) error {
	traceID, moved, err := l.Fail(ctx, r, failureUndelivered, reason)
	if err != nil {
		return fmt.Errorf("mark material request failed: %w", err)
	}
	if moved {
		l.log.WarnContext(logctx.WithRequest(ctx, r.SupplierID, r.RequestID, traceID), "material request failed",
			"reason", reason)
	}
	return nil
}

// MarkRedelivered moves the rounds' requests from failed back to enqueued, because an operator has their events
// delivered again; in any other state or round it does nothing. It joins the transaction in ctx.
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
// enqueued in this round. sentence is for the supplier, cause for the operator. It joins the transaction in ctx.
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
