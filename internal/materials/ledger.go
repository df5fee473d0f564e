package materials

import (
	"context"
	"fmt"
	"log/slog"
	"strings"

	"github.com/supplyhub/supplyhub/internal/logctx"
)

// failureLimit is the longest reason that is kept, in bytes.
const failureLimit = 1000

// MarkFailed moves the request from enqueued to failed, because its event could not be delivered; in any other
// state, and for an unknown request, it does nothing. It joins the transaction in ctx.
func (s *Service) MarkFailed(ctx context.Context, supplierID string, requestID int64, reason string) error {
	key := requestKey{supplierID, requestID}
	traceID, moved, err := s.store.fail(ctx, key, failureText(reason), s.deps.Now())
	if err != nil {
		return fmt.Errorf("mark material request failed: %w", err)
	}
	if moved {
		s.deps.Log.WarnContext(key.context(ctx, traceID), "material request failed", "reason", reason)
	}
	return nil
}

// Reopen moves a failed request back to enqueued, because an operator has its event delivered again; in any other
// state, and for an unknown request, it does nothing. A request whose event was never stored is estimated again.
// It joins the transaction in ctx.
func (s *Service) Reopen(ctx context.Context, supplierID string, requestID int64) error {
	key := requestKey{supplierID, requestID}
	traceID, moved, err := s.store.reopen(ctx, key, s.deps.Now())
	if err != nil {
		return fmt.Errorf("reopen material request: %w", err)
	}
	if moved {
		s.deps.Log.InfoContext(key.context(ctx, traceID), "material request reopened")
	}
	return nil
}

// context says whose work this is on every log line.
func (k requestKey) context(ctx context.Context, traceID string) context.Context {
	whose := []slog.Attr{slog.String("supplier_id", k.SupplierID), slog.Int64("material_request_id", k.ID)}
	if logctx.RequestID(ctx) == traceID {
		return logctx.With(ctx, whose...)
	}
	return logctx.WithRequestID(ctx, traceID, whose...)
}

// failureText makes any text fit for the database: bounded, valid UTF-8, without NUL.
func failureText(reason string) string {
	if len(reason) > failureLimit {
		reason = reason[:failureLimit]
	}
	return strings.ReplaceAll(strings.ToValidUTF8(reason, ""), "\x00", "")
}
