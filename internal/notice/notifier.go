package notice

import "context"

// Notifier stores notices for the operator, in the transaction of ctx.
type Notifier interface {
	Open() bool // reports whether notices are taken
	Note(ctx context.Context, notices ...Notice) error
}

// OrNone returns the notifier, or one that takes nothing instead of nil.
func OrNone(n Notifier) Notifier {
	if n == nil {
		return none{}
	}
	return n
}

type none struct{}

func (none) Open() bool                            { return false }
func (none) Note(context.Context, ...Notice) error { return nil }
