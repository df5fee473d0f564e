package materials

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/round"
)

// failureUndelivered is why a request is failed whose estimates never arrived, in words for the supplier.
const failureUndelivered = "The delivery estimates were computed and could not be delivered in the whole retry schedule."

// MarkFailed moves the round's request from enqueued to failed, because its event could not be delivered; in any other
// state or round it does nothing. reason is for the log. It joins the transaction in ctx.
func (s *Service) MarkFailed(ctx context.Context, r round.Round, reason string) error {
	traceID, moved, err := s.fail(ctx, r, failureUndelivered, reason)
	if err != nil {
		return fmt.Errorf("mark material request failed: %w", err)
	}
	if moved {
		s.deps.Log.WarnContext(roundContext(ctx, r, traceID), "material request failed", "reason", reason)
	}
	return nil
}

// MarkRedelivered moves the round's request from failed back to enqueued, because an operator has its event delivered
// again; in any other state or round it does nothing. It joins the transaction in ctx.
func (s *Service) MarkRedelivered(ctx context.Context, r round.Round) error {
	traceID, moved, err := s.store.redelivered(ctx, r, s.deps.Now())
	if err != nil {
		return fmt.Errorf("mark material request redelivered: %w", err)
	}
	if moved {
		s.deps.Log.InfoContext(roundContext(ctx, r, traceID), "material request is redelivered")
	}
	return nil
}

// roundContext names the request on every log line.
func roundContext(ctx context.Context, r round.Round, traceID string) context.Context {
	whose := []slog.Attr{slog.String("supplier_id", r.SupplierID), slog.Int64("material_request_id", r.RequestID)}
	if logctx.RequestID(ctx) == traceID {
		return logctx.With(ctx, whose...)
	}
	return logctx.WithRequestID(ctx, traceID, whose...)
}
