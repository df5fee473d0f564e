package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

const requestIDHeader = "X-Request-Id"

// observer surrounds every request: its id, its line in the log, its share of the metrics, and its panics.
type observer struct {
	log      *slog.Logger
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

func newObserver(log *slog.Logger, registry *prometheus.Registry) *observer {
	o := &observer{
		log: log,
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "http_requests_total", Help: "HTTP requests answered, by method, route template and status.",
		}, []string{"method", "route", "status"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "http_request_duration_seconds", Help: "Time from a request's headers to the end of its answer.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"method", "route"}),
	}
	if registry != nil {
		registry.MustRegister(o.requests, o.duration)
	}
	return o
}

// observe is the outermost middleware. Its log line has the fields that the handlers inside add.
func (o *observer) observe(c *gin.Context) {
	start := time.Now()
	id := requestID(c.Request.Header)
	c.Header(requestIDHeader, id)
	c.Header("X-Content-Type-Options", "nosniff")
	c.Request = c.Request.WithContext(logctx.WithRequestID(c.Request.Context(), id))
	defer o.account(c, start)
	c.Next()
}

func (o *observer) account(c *gin.Context, start time.Time) {
	elapsed := time.Since(start)
	method, route, status, size := methodLabel(c.Request), c.FullPath(), shownStatus(c), max(c.Writer.Size(), 0)
	if route == "" {
		route = "unmatched"
	}
	if method == http.MethodHead {
		size = 0
	}
	o.requests.WithLabelValues(method, route, strconv.Itoa(status)).Inc()
	observeTraced(c.Request.Context(), o.duration.WithLabelValues(method, route), elapsed)

	ctx, level := c.Request.Context(), logLevel(c, status)
	if !o.log.Enabled(ctx, level) {
		return
	}
	attrs := []slog.Attr{
		slog.String("method", method), slog.String("route", route), slog.Int("status", status),
		slog.Duration("duration", elapsed), slog.Int("bytes", size), slog.String("client", c.ClientIP()),
	}
	if failure := c.Errors.Last(); failure != nil && status >= http.StatusInternalServerError {
		attrs = append(attrs, slog.String("error", failure.Err.Error()))
	}
	o.log.LogAttrs(ctx, level, "request", attrs...)
}

// logLevel returns error only for what an operator must look into: an unavailable dependency is a warning of its own
// once a minute, not one a request.
func logLevel(c *gin.Context, status int) slog.Level {
	switch {
	case status < http.StatusInternalServerError:
		return slog.LevelInfo
	case c.Errors.Last() != nil && errs.KindOf(c.Errors.Last().Err) == errs.Unavailable:
		return slog.LevelInfo
	case c.Errors.Last() != nil && errs.KindOf(c.Errors.Last().Err) != errs.Internal:
		return slog.LevelWarn
	default:
		return slog.LevelError
	}
}

// A body that is not read: how long it may pause, and take altogether, before the answer does not wait for it.
const (
	droppedPause = time.Second
	droppedBody  = 5 * time.Second
)

// dropBody reads and discards the rest of a body that a 401 or a 413 does not need, so that its sender is not cut off
// and reads the answer. When the rest does not come it ends the connection, on which that would be read as the next
// request; net/http would wait for it. A caller that expects an answer before it sends the body gets this one.
func dropBody(c *gin.Context) {
	h := heldBy(c)
	if c.Request.ContentLength == 0 || h.read {
		return
	}
	h.read = true
	connection, buffer := http.NewResponseController(c.Writer), make([]byte, 4<<10)
	end, left := time.Now().Add(droppedBody), maxBody+1
	if c.Request.Header.Get("Expect") != "" {
		left = 0
	}
	for left > 0 && time.Now().Before(end) {
		_ = connection.SetReadDeadline(time.Now().Add(droppedPause)) // without one it waits, as net/http does
		n, err := c.Request.Body.Read(buffer)
		if errors.Is(err, io.EOF) {
			return
		}
		if left -= n; err != nil {
			h.late = errors.Is(err, os.ErrDeadlineExceeded)
			break
		}
	}
	_ = connection.SetReadDeadline(time.Now()) // the rest is not read
	c.Header("Connection", "close")
}

// Long lets the work of a route take longer than a call may, from its head to the end of its answer. The answer, which
// net/http sends when the route has returned, has a time of its own; it is small.
func Long(c *gin.Context) {
	connection := http.NewResponseController(c.Writer)
	_ = connection.SetWriteDeadline(time.Time{})
	c.Next()
	_ = connection.SetWriteDeadline(time.Now().Add(15 * time.Second)) // if it is read more slowly it is given up
}

// recoverPanic answers a panic with the 500 problem and logs its stack, without any header of the request.
func (o *observer) recoverPanic(c *gin.Context) {
	defer func() {
		p := recover()
		if p == nil {
			return
		}
		if err, ok := p.(error); ok && errors.Is(err, http.ErrAbortHandler) {
			panic(http.ErrAbortHandler)
		}
		o.log.LogAttrs(c.Request.Context(), slog.LevelError, "panic in a handler",
			slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
		if c.Writer.Written() {
			panic(http.ErrAbortHandler) // the answer is broken: the caller must not take it for a whole one
		}
		writeProblem(c, http.StatusInternalServerError, internalDetail, nil)
	}()
	c.Next()
}

// requestID keeps the caller's id when it is one value of 1 to 128 visible ASCII characters.
func requestID(header http.Header) string {
	values := header[requestIDHeader]
	if len(values) != 1 || len(values[0]) < 1 || len(values[0]) > 128 ||
		strings.ContainsFunc(values[0], func(r rune) bool { return r <= ' ' || r > '~' }) {
		return rand.Text()
	}
	return values[0]
}

type headKey struct{}

// serveHead routes a HEAD request again as GET: net/http drops the body and keeps the headers.
func serveHead(engine *gin.Engine) gin.HandlerFunc {
	return func(c *gin.Context) {
		if c.Request.Method != http.MethodHead {
			return
		}
		// a copy: net/http still sees HEAD
		get := c.Request.WithContext(context.WithValue(c.Request.Context(), headKey{}, true))
		get.Method = http.MethodGet
		c.Request = get
		c.Writer.Header().Del("Allow") // gin has already taken it for a wrong method
		c.Status(http.StatusOK)
		engine.HandleContext(c)
		c.Abort()
	}
}

// methodLabel keeps the number of metrics bounded: callers can invent methods.
func methodLabel(r *http.Request) string {
	switch r.Method {
	case http.MethodGet:
		if r.Context().Value(headKey{}) != nil {
			return http.MethodHead
		}
		return http.MethodGet
	case http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return r.Method
	default:
		return "other"
	}
}

// IsHead reports whether the caller sent HEAD, which is routed as GET.
func IsHead(c *gin.Context) bool { return c.Request.Context().Value(headKey{}) != nil }
