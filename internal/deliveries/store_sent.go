package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// A supplier sees a delivery as it is in the rows that the operator sees, without the addresses of the operator's
// network (PublicError), and only where the destination is the supplier: every look for one is by sentByID or by a
// filter of that receiver.

// sentByID returns errs.NotFound when the supplier has no delivery of that id to its own receiver.
func (s *store) sentByID(ctx context.Context, supplierID, id string) (*deliveryRow, error) {
	row, err := s.whole(ctx, id)
	if err == nil && (row == nil || row.Destination != supplierID) {
		return nil, errs.New(errs.NotFound, "There is no such delivery.")
	}
	return row, err
}

// sent returns the delivery as its receiver's owner may see it.
func (r deliveryRow) sent() Sent {
	d := r.delivery()
	sent := Sent{
		ID: d.ID, RequestID: d.RequestID, EventType: webhook.TypeEstimated, Status: d.Status, AttemptCount: d.AttemptCount,
		NextAttempt: d.NextAttempt, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	if r.lastStartedAt != nil {
		sent.LastAttempt = &r.answered(r.last()).SentAttempt
	}
	return sent
}

// last returns the last attempt, which the delivery's row keeps until the next one begins (c).
func (r deliveryRow) last() attemptRow {
	return attemptRow{r.AttemptCount, *r.lastStartedAt, r.lastDurationUs, r.LastStatus, r.lastError, r.lastResponse,
		r.lastURL}
}

// answered returns one of the delivery's attempts as its receiver's owner may see it.
func (r deliveryRow) answered(row attemptRow) *AnsweredAttempt {
	a := row.attempt(r.attempts(row))
	sent := SentAttempt{Number: a.Number, StartedAt: a.Time, DurationMS: a.DurationMS, Status: a.Status, Error: a.Error}
	if row.Error != "" {
		sent.Error = new(PublicError(row.Error))
	}
	return &AnsweredAttempt{sent, a.URL, a.Response}
}

// sentEvent is sentByID with the event. The attempts are read by statements of their own after the row: one that begins
// or ends between two of them shows as it was, or as it is. A delivery that retention deleted meanwhile is not found.
func (s *store) sentEvent(ctx context.Context, supplierID, id string) (row *deliveryRow, sent SentEvent, err error) {
	if row, err = s.sentByID(ctx, supplierID, id); err == nil {
		sent.Sent = row.sent()
		sent.Event, err = s.eventOf(ctx, *row)
	}
	return row, sent, err
}

// answeredOf is attemptsOf as its receiver's owner may see them.
func (s *store) answeredOf(ctx context.Context, row deliveryRow, after, n int64) ([]AnsweredAttempt, error) {
	rows, err := s.attemptsOf(ctx, row, after, n)
	return lists.Of(rows, func(r attemptRow) AnsweredAttempt { return *row.answered(r) }), err
}

// eventOf returns the event as it is sent.
func (s *store) eventOf(ctx context.Context, row deliveryRow) ([]byte, error) {
	var stored []byte
	found, err := database.One(ctx, s.DB.ReaderSQL(ctx), `SELECT body FROM webhook_events WHERE uid = $1 AND round = $2`,
		[]any{row.uid, row.Round}, &stored)
	if err != nil {
		return nil, fmt.Errorf("read webhook event: %w", err)
	}
	if !found { // deleted by retention between two statements
		return nil, unknownDeliveries([]string{row.ID})
	}
	body, err := pack.Unpack(stored)
	return body, errs.Doing("read webhook event", err)
}

// mostCounted is how many deliveries of a status history looks at, the newest: it would take seconds for years of them.
const mostCounted = "1000000"

// history counts n buckets of the width from the given time on, by their indexes alone.
func (s *store) history(ctx context.Context, supplierID string, from time.Time, width time.Duration, n int) ([]Bucket,
	error) {
	buckets := make([]Bucket, n)
	for i := range buckets {
		buckets[i].Start = from.Add(time.Duration(i) * width)
	}
	for _, status := range statuses {
		made := database.Arms(Filter{Receiver: supplierID, Status: status}.arms(s, `$1`), func(arm string) string {
			return `SELECT (created_at - $2) / $3 AS bucket FROM (SELECT created_at FROM webhook_deliveries
				WHERE ` + arm + ` ORDER BY uid DESC, round DESC LIMIT ` + mostCounted + `) AS newest WHERE created_at >= $2`
		})
		counts, err := database.Pairs[int64, int64](ctx, s.DB.ReaderSQL(ctx), `SELECT bucket, count(*)
			FROM (`+made+`) AS made GROUP BY 1`, supplierID, from.UnixMicro(), width.Microseconds())
		if err != nil {
			return nil, fmt.Errorf("count webhook deliveries by time: %w", err)
		}
		for bucket, count := range counts {
			buckets[min(max(bucket, 0), int64(n-1))].add(status, count)
		}
	}
	return buckets, nil
}

func (b *Bucket) add(status Status, n int64) {
	switch status {
	case Delivered:
		b.Delivered += n
	case Pending:
		b.Pending += n
	default:
		b.Lost += n
	}
}
