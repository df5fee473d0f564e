package httpapi

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/supplyhub/supplyhub/internal/logctx"
)

// traceParent is W3C Trace Context's header, and how long it is in every version of it.
const (
	traceParent       = "traceparent"
	traceParentLength = len("00-00000000000000000000000000000000-0000000000000000-00")
)

// traced returns the middleware that begins a span for each call that is sampled, in the trace that the caller names.
// Of any other call it keeps what the caller named, and does nothing more. scheme is the one that callers come by.
func traced(provider trace.TracerProvider, scheme string) gin.HandlerFunc {
	tracer := provider.Tracer("supplyhub")
	return func(c *gin.Context) {
		ctx, named := c.Request.Context(), c.GetHeader(traceParent)
		if named != "" {
			ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(c.Request.Header))
		}
		caller := trace.SpanContextFromContext(ctx)
		ctx, span := tracer.Start(ctx, c.Request.Method+" "+cmp.Or(c.FullPath(), "route not found"),
			trace.WithSpanKind(trace.SpanKindServer))
		switch {
		case span.IsRecording():
			defer describe(span, c, scheme)
			c.Request = c.Request.WithContext(ctx)
		case caller.IsValid():
			c.Request = c.Request.WithContext(logctx.WithTraceParent(c.Request.Context(),
				logctx.JoinTrace(named[:traceParentLength], caller.TraceState().String())))
		}
		c.Next()
	}
}

// describe ends the span of an answered call.
func describe(span trace.Span, c *gin.Context, scheme string) {
	status := shownStatus(c)
	span.SetAttributes(
		attribute.String("request_id", logctx.RequestID(c.Request.Context())), // as on every other span of the request
		semconv.HTTPRequestMethodKey.String(methodLabel(c.Request)), semconv.HTTPRoute(c.FullPath()),
		semconv.URLScheme(scheme), semconv.URLPath(c.Request.URL.Path), semconv.ClientAddress(c.ClientIP()),
		semconv.UserAgentOriginal(c.Request.UserAgent()), semconv.HTTPResponseStatusCode(status),
		semconv.HTTPResponseBodySize(max(c.Writer.Size(), 0)))
	if status >= http.StatusInternalServerError {
		span.SetStatus(codes.Error, "")
	}
	span.End()
}

// observeTraced counts a duration, with the trace in which it was spent as its exemplar.
func observeTraced(ctx context.Context, durations prometheus.Observer, elapsed time.Duration) {
	span := trace.SpanContextFromContext(ctx)
	if traced, ok := durations.(prometheus.ExemplarObserver); ok && span.IsSampled() {
		traced.ObserveWithExemplar(elapsed.Seconds(), prometheus.Labels{"trace_id": span.TraceID().String()})
		return
	}
	durations.Observe(elapsed.Seconds())
}
