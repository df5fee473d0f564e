// Package logctx carries what every log line of a piece of work must say: the request id and
// further attributes. telemetry's handler writes them; features only add to them.
package logctx

import (
	"context"
	"log/slog"
	"slices"
	"strings"
)

type (
	attrsKey     struct{}
	requestIDKey struct{}
	traceKey     struct{}
)

// With adds attributes to every log line written with the returned context.
func With(ctx context.Context, attrs ...slog.Attr) context.Context {
	return context.WithValue(ctx, attrsKey{}, slices.Concat(Attrs(ctx), attrs))
}

// Attrs returns the attributes added so far, the request id among them.
func Attrs(ctx context.Context) []slog.Attr {
	attrs, _ := ctx.Value(attrsKey{}).([]slog.Attr)
	return attrs
}

// WithRequestID names the X-Request-Id that this work belongs to, in the worker too, and adds attributes.
func WithRequestID(ctx context.Context, id string, attrs ...slog.Attr) context.Context {
	all := slices.Concat(Attrs(ctx), []slog.Attr{slog.String("request_id", id)}, attrs)
	return context.WithValue(context.WithValue(ctx, requestIDKey{}, id), attrsKey{}, all)
}

// WithRequest names a material request on every log line, and the X-Request-Id of the call that made it.
func WithRequest(ctx context.Context, supplierID string, requestID int64, traceID string) context.Context {
	attrs := []slog.Attr{slog.String("supplier_id", supplierID), slog.Int64("material_request_id", requestID)}
	if RequestID(ctx) == traceID {
		return With(ctx, attrs...)
	}
	return WithRequestID(ctx, traceID, attrs...)
}

// RequestID returns the X-Request-Id of this work, "" when there is none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}

// longestState is how much of a caller's tracestate is carried: what W3C Trace Context asks for.
const longestState = 512

// JoinTrace returns one text of the two headers of W3C Trace Context, traceparent and tracestate, so that a span is
// kept and passed on as one. A state that is too long is left out, whole: its parts are other systems'.
func JoinTrace(parent, state string) string {
	if parent == "" || state == "" || len(state) > longestState {
		return parent
	}
	return parent + " " + state
}

// SplitTrace returns the two headers that JoinTrace joined.
func SplitTrace(joined string) (parent, state string) {
	parent, state, _ = strings.Cut(joined, " ")
	return parent, state
}

// WithTraceParent names the span that caused this work, as JoinTrace writes it; empty: none is known.
func WithTraceParent(ctx context.Context, parent string) context.Context {
	if parent == "" {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, parent)
}

// TraceParent returns the span that caused this work, "" when none is known.
func TraceParent(ctx context.Context) string {
	parent, _ := ctx.Value(traceKey{}).(string)
	return parent
}
