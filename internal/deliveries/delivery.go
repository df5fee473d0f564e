package deliveries

import (
	"context"
	"log/slog"
	"time"

	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Status is the state of a delivery; the package comment draws how one follows another. Pending is two states in one:
// the column worker says whether the delivery waits or is begun. Nothing but the arrows a to h changes it.
type Status string

// The statuses of a delivery.
const (
	Pending   Status = "pending"   // due now or later, or being attempted
	Delivered Status = "delivered" // the destination answered 2xx
	Dead      Status = "dead"      // every attempt of the schedule came to nothing, or retention ended it
	Failed    Status = "failed"    // the destination's answer was final
)

// OwnEndpoint is the destination of the service's own endpoint; every other one is a supplier's id. Where a delivery to
// it is lost its request is failed in the same transaction; one to a receiver concerns no request.
const OwnEndpoint = "own"

// Delivery is one event on its way to one destination.
type Delivery struct {
	ID           string     `json:"id"`          // the webhook-id, the same on every attempt
	Destination  string     `json:"destination"` // ownEndpoint or the supplier's id
	SupplierID   string     `json:"supplier_id"`
	RequestID    int64      `json:"request_id"`
	Round        int64      `json:"round"` // of the request
	Status       Status     `json:"status"`
	AttemptCount int64      `json:"attempt_count"`   // attempts begun, over all series
	LastStatus   *int       `json:"last_status"`     // of the last attempt's answer; nil when there was none
	LastError    *string    `json:"last_error"`      // why there was none, or why retention ended it; nil: neither
	NextAttempt  *time.Time `json:"next_attempt_at"` // nil unless pending, and during an attempt
	CreatedAt    time.Time  `json:"created_at"`
	UpdatedAt    time.Time  `json:"updated_at"`

	uid    int64
	worker *int64 // that attempts it right now
	// when it was last sent again after it had been delivered, if it is delivered; nil: never
	sentAgain *time.Time
}

// roundOf returns the round whose event is delivered.
func (d Delivery) roundOf() round.Round {
	return round.Round{SupplierID: d.SupplierID, RequestID: d.RequestID, UID: d.uid, Number: d.Round}
}

// Detail is a delivery with all its attempts, oldest first.
type Detail struct {
	Delivery
	Attempts []Attempt `json:"attempts"`
}

// Attempt is one call of a delivery. It is recorded before it is sent, so one whose worker died in it is here too.
type Attempt struct {
	Number     int64     `json:"number"` // from 1, over all series
	Time       time.Time `json:"time"`
	URL        *string   `json:"url"`         // nil: the own endpoint's, or it has no end
	Status     *int      `json:"status"`      // the answer's HTTP status; nil when there was no answer
	Error      *string   `json:"error"`       // why it failed, in so far as the status does not say it
	DurationMS *int64    `json:"duration_ms"` // nil while it is under way, or interrupted
	Response   string    `json:"response"`    // the answer's first 1 KiB; bytes that are not UTF-8 are replaced
}

// interrupted is the error of an attempt without an end: f took it from its worker. It is not stored with the attempt:
// who shows one that has no duration, and that no worker has, shows this.
const interrupted = "interrupted: the worker ended during this attempt"

// Begun is an attempt that is begun in the database (b, c). It is the worker's while that has its lease. The result (e)
// names Worker and Number: when another worker took the attempt over (f), the row has others and nothing is written.
type Begun struct {
	ID          string
	Destination string
	Round       round.Round
	Number      int64     // of the attempt, over all series
	Series      int64     // attempts begun since created or redelivered, this one included
	Worker      int64     // under whose lease it is begun
	At          time.Time // when it was begun with its delivery; zero when it was claimed
	TraceID     string
	TraceParent string // the span that caused the event; empty: none is known
	Body        []byte // the event, as it is stored when it was read like that
}

// Context names the delivery on every log line.
func (b Begun) Context(ctx context.Context) context.Context {
	return logctx.WithRequestID(logctx.WithTraceParent(ctx, b.TraceParent), b.TraceID, slog.String("delivery_id", b.ID),
		slog.String("supplier_id", b.Round.SupplierID), slog.Int64("material_request_id", b.Round.RequestID))
}

// DeadNotice returns what the operator is notified of when the delivery is dead. It is stored in the transaction that
// makes it dead (c, e, g): each is counted once, and none is lost by a crash after the COMMIT.
func DeadNotice(r round.Round, id, reason string) notice.Notice {
	return notice.Notice{Type: notice.DeliveryDead, SupplierID: r.SupplierID, Subject: id, Error: reason}
}
