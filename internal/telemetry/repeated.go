package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// sayAgainAfter is how often the log repeats that something the process needs is unavailable.
const sayAgainAfter = time.Minute

// handler adds to each line what the context knows of the work it belongs to. It drops a warning whose error is an
// unavailable dependency, when one that says the same of it was logged less than a minute ago: many loops try again
// each second, and their lines would bury everything else.
type handler struct {
	slog.Handler
	said *said
}

// said is when each detail of the last minute was logged, by time of the records.
type said struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func newHandler(h slog.Handler) handler {
	return handler{h, &said{last: map[string]time.Time{}}}
}

// Handle passes the record on unless it only repeats.
func (h handler) Handle(ctx context.Context, r slog.Record) error {
	if detail := unavailable(r); r.Level >= slog.LevelWarn && detail != "" && !h.said.again(detail, r.Time) {
		return nil
	}
	if attrs := logctx.Attrs(ctx); len(attrs) > 0 {
		r = r.Clone()
		r.AddAttrs(attrs...)
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns the handler of a logger with more attributes.
func (h handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return handler{h.Handler.WithAttrs(attrs), h.said}
}

// WithGroup returns the handler of a logger with a group.
func (h handler) WithGroup(name string) slog.Handler {
	return handler{h.Handler.WithGroup(name), h.said}
}

// unavailable returns what the record's error says of a dependency that is unavailable; empty: nothing.
func unavailable(r slog.Record) (detail string) {
	r.Attrs(func(a slog.Attr) bool {
		err, _ := a.Value.Any().(error)
		if e, ok := errors.AsType[*errs.Error](err); ok && e.Kind == errs.Unavailable {
			detail = e.Detail
		}
		return detail == ""
	})
	return detail
}

// again reports whether it is time to say it again.
func (s *said) again(detail string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.last, func(_ string, at time.Time) bool { return now.Sub(at) >= sayAgainAfter })
	if _, found := s.last[detail]; found {
		return false
	}
	s.last[detail] = now
	return true
}
