// Package notice has the form of what the operator is notified of. A feature notes it in the transaction in which it
// happens; package notify stores and sends it.
package notice

import (
	"context"
)

// The types of events.
const (
	ReceiverFailing   = "receiver.failing"
	ReceiverRecovered = "receiver.recovered"
	ReceiverPaused    = "receiver.paused"
	DeliveryDead      = "delivery.dead"  // summed up
	RequestFailed     = "request.failed" // summed up
)

// Notice is one thing that the operator is notified of.
type Notice struct {
	Type       string
	SupplierID string
	Subject    string // the id of the delivery or of the request; empty: it is about the receiver
	PausedBy   string // of ReceiverPaused
	Error      string // empty: none is known
}

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
