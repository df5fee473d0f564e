package telemetry

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// sayAgainAfter is how often the log repeats that something the process needs is unavailable.
const sayAgainAfter = time.Minute

// onceAMinute drops a warning that was logged less than a minute ago with the same text and whose error is an
// unavailable dependency: loops try again each second, and their lines would bury everything else.
type onceAMinute struct {
	slog.Handler
	said *said
}

// said is when each text of the last minute was logged, by time of the records.
type said struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func newOnceAMinute(h slog.Handler) onceAMinute {
	return onceAMinute{h, &said{last: map[string]time.Time{}}}
}

// Handle passes the record on unless it only repeats.
func (h onceAMinute) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && ofUnavailable(r) && !h.said.again(r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns the handler of a logger with more attributes.
func (h onceAMinute) WithAttrs(attrs []slog.Attr) slog.Handler {
	return onceAMinute{h.Handler.WithAttrs(attrs), h.said}
}

// WithGroup returns the handler of a logger with a group.
func (h onceAMinute) WithGroup(name string) slog.Handler {
	return onceAMinute{h.Handler.WithGroup(name), h.said}
}

// ofUnavailable reports whether the record's error says that a dependency is unavailable.
func ofUnavailable(r slog.Record) (is bool) {
	r.Attrs(func(a slog.Attr) bool {
		err, ok := a.Value.Any().(error)
		is = ok && errs.KindOf(err) == errs.Unavailable
		return !is
	})
	return is
}

// again reports whether it is time to say it again.
func (s *said) again(r slog.Record) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.DeleteFunc(s.last, func(_ string, at time.Time) bool { return r.Time.Sub(at) >= sayAgainAfter })
	if _, found := s.last[r.Message]; found {
		return false
	}
	s.last[r.Message] = r.Time
	return true
}
