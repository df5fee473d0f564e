package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"strconv"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// The headers of W3C Trace Context.
const (
	traceParent = "traceparent"
	traceState  = "tracestate"
)

// Tracing is where spans go. A nil Provider means that nothing is traced.
type Tracing struct {
	Provider trace.TracerProvider
	shutdown func(context.Context) error
}

// NewTracing exports spans as the standard OTEL variables of the environment say (OTLP over HTTP), of a service named
// supplyhub-<role> unless OTEL_SERVICE_NAME is set. Without OTEL_EXPORTER_OTLP_ENDPOINT or
// OTEL_EXPORTER_OTLP_TRACES_ENDPOINT nothing is traced.
func NewTracing(ctx context.Context, environ map[string]string, role string, log *slog.Logger) (*Tracing, error) {
	given := environ["OTEL_EXPORTER_OTLP_ENDPOINT"] != "" || environ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"] != ""
	if !given || environ["OTEL_SDK_DISABLED"] == "true" || environ["OTEL_TRACES_EXPORTER"] == "none" {
		return &Tracing{}, nil
	}
	exporter, err := otlptracehttp.New(ctx) // it reads the variables itself
	if err != nil {
		return nil, fmt.Errorf("set up tracing: %w", err)
	}
	described, err := resource.New(ctx, resource.WithTelemetrySDK(), resource.WithAttributes(
		semconv.ServiceName("supplyhub-"+role), semconv.ServiceVersion(Version())), resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("set up tracing: %w", err)
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("tracing failed", "error", errs.NewUnavailable("Traces are not exported.", 0, err))
	}))
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(described))
	return &Tracing{Provider: provider, shutdown: provider.Shutdown}, nil
}

// On reports whether anything is traced.
func (t *Tracing) On() bool { return t != nil && t.Provider != nil }

// Span begins a span and returns the function that ends it and notes a failure. The span carries the request's id, to
// be found from the logs. Outside of any span it continues the trace that logctx names. A trace begins with a call of
// the api. If that call was not sampled, its work has no span, and the TraceParent of the returned context says so to
// whatever the work calls.
func (t *Tracing) Span(ctx context.Context, name string, attrs ...slog.Attr) (context.Context, func(error)) {
	ctx, span := t.begin(ctx, name, attrs)
	return ctx, func(err error) { end(span, err) }
}

// Call is Span for a call of an HTTP client: service graphs draw an arrow from it. address returns what may be shown of
// where it goes; end takes the answer's status, 0 without an answer, and why the call came to nothing.
func (t *Tracing) Call(ctx context.Context, name, method string, address func() *url.URL, attrs ...slog.Attr) (
	context.Context, func(status int, err error)) {
	ctx, span := t.begin(ctx, name, attrs, trace.WithSpanKind(trace.SpanKindClient))
	if span == nil {
		return ctx, func(int, error) {}
	}
	to := address()
	span.SetAttributes(semconv.HTTPRequestMethodKey.String(method), semconv.URLFull(to.String()),
		semconv.ServerAddress(to.Hostname()), semconv.ServerPort(portOf(to)))
	return ctx, func(status int, err error) {
		switch {
		case status != 0:
			span.SetAttributes(semconv.HTTPResponseStatusCode(status))
			if err != nil {
				span.SetAttributes(semconv.ErrorTypeKey.String(strconv.Itoa(status)))
			}
		case err != nil:
			span.SetAttributes(semconv.ErrorTypeOther)
		}
		end(span, err)
	}
}

func portOf(address *url.URL) int {
	if port, err := strconv.Atoi(address.Port()); err == nil {
		return port
	}
	if address.Scheme == "http" {
		return 80
	}
	return 443
}

// begin returns no span where none is recorded.
func (t *Tracing) begin(ctx context.Context, name string, attrs []slog.Attr, options ...trace.SpanStartOption) (
	context.Context, trace.Span) {
	if !t.On() {
		return ctx, nil
	}
	parent := trace.SpanContextFromContext(ctx)
	if !parent.IsValid() {
		if parent = spanOf(logctx.TraceParent(ctx)); parent.IsSampled() {
			ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
		}
	}
	if !parent.IsSampled() {
		if !parent.IsValid() {
			ctx = logctx.WithTraceParent(ctx, notSampled())
		}
		return ctx, nil
	}
	described := make([]attribute.KeyValue, 0, len(attrs)+1)
	if id := logctx.RequestID(ctx); id != "" {
		described = append(described, attribute.String("request_id", id))
	}
	for _, a := range attrs {
		described = append(described, attribute.String(a.Key, a.Value.String()))
	}
	return t.Provider.Tracer("supplyhub").Start(ctx, name, append(options, trace.WithAttributes(described...))...)
}

// notSampled names a span that is not recorded, as W3C Trace Context writes it, so that called services record none.
func notSampled() string {
	return fmt.Sprintf("00-%016x%016x-%016x-00", rand.Uint64()|1, rand.Uint64(), rand.Uint64()|1)
}

func end(span trace.Span, err error) {
	if span == nil {
		return
	}
	if err != nil {
		span.SetStatus(codes.Error, err.Error())
	}
	span.End()
}

// spanOf reads a span as W3C Trace Context writes it; the invalid one for any other text.
func spanOf(named string) trace.SpanContext {
	if named == "" {
		return trace.SpanContext{}
	}
	parent, state := logctx.SplitTrace(named)
	carrier := propagation.MapCarrier{traceParent: parent, traceState: state}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), carrier))
}

// Parent returns the span that ctx is in, as W3C Trace Context writes it, or else the one that logctx names; "" when
// there is none.
func (t *Tracing) Parent(ctx context.Context) string {
	if !t.On() || !trace.SpanContextFromContext(ctx).IsValid() {
		return logctx.TraceParent(ctx)
	}
	carrier := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(ctx, carrier)
	return logctx.JoinTrace(carrier[traceParent], carrier[traceState])
}

// Close sends what is left.
func (t *Tracing) Close(ctx context.Context) error {
	if t == nil || t.shutdown == nil {
		return nil
	}
	return t.shutdown(ctx)
}
