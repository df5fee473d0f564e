package logctx

import (
	"context"
	"log/slog"
	"slices"
	"sync"
)

// Audit is what a call or a command changes of a supplier's access or receiver, gathered where it is known: the code
// that authenticates notes the caller, the code of a change what it changed. It ends as one line of the log.
type Audit struct {
	mu        sync.Mutex
	attrs     []slog.Attr
	unchanged bool
}

type auditKey struct{}

// WithAudit begins to gather.
func WithAudit(ctx context.Context) (context.Context, *Audit) {
	a := &Audit{}
	return context.WithValue(ctx, auditKey{}, a), a
}

// Note adds to the line: ids, a count, a filter, the host of an address. Never a secret, nor what may hold one, such as
// a whole address. A later value of a name replaces the former.
func Note(ctx context.Context, attrs ...slog.Attr) {
	a, _ := ctx.Value(auditKey{}).(*Audit)
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, attr := range attrs {
		a.attrs = append(slices.DeleteFunc(a.attrs, func(b slog.Attr) bool { return b.Key == attr.Key }), attr)
	}
}

// KnownBy notes how the caller was known.
func KnownBy(ctx context.Context, how string) { Note(ctx, slog.String("by", how)) }

// Unchanged records that nothing was changed: there is no line.
func Unchanged(ctx context.Context) {
	if a, _ := ctx.Value(auditKey{}).(*Audit); a != nil {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.unchanged = true
	}
}

// Write ends it with the line. failed: the change may have been made in part.
func (a *Audit) Write(ctx context.Context, log *slog.Logger, action, from string, failed bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.unchanged {
		return
	}
	attrs := append([]slog.Attr{slog.String("action", action), slog.String("from", from)}, a.attrs...)
	if failed {
		attrs = append(attrs, slog.Bool("failed", true))
	}
	log.LogAttrs(ctx, slog.LevelInfo, "audit", attrs...)
}
