// Package logctx carries what every log line of a piece of work must say: the request id and
// further attributes. telemetry's handler writes them; rooms only add to them.
package logctx

import (
	"context"
	"log/slog"
	"slices"
)

type (
	attrsKey     struct{}
	requestIDKey struct{}
)

// With adds attributes to every log line written with the returned context.
func With(ctx context.Context, attrs ...slog.Attr) context.Context {
	return context.WithValue(ctx, attrsKey{}, slices.Concat(Attrs(ctx), attrs))
}

// Attrs are the attributes added so far, the request id among them.
func Attrs(ctx context.Context) []slog.Attr {
	attrs, _ := ctx.Value(attrsKey{}).([]slog.Attr)
	return attrs
}

// WithRequestID names the X-Request-Id that this work belongs to, in the worker too, and adds attributes beside it.
func WithRequestID(ctx context.Context, id string, attrs ...slog.Attr) context.Context {
	named := append([]slog.Attr{slog.String("request_id", id)}, attrs...)
	return With(context.WithValue(ctx, requestIDKey{}, id), named...)
}

// RequestID is the X-Request-Id of this work, "" when there is none.
func RequestID(ctx context.Context) string {
	id, _ := ctx.Value(requestIDKey{}).(string)
	return id
}
