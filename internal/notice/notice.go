// Package notice is what the operator is notified of. A feature notes it in the transaction in which it happens;
// package notify stores and sends it.
package notice

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
