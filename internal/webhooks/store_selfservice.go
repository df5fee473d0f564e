package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// recoverBatch is how many deliveries one statement of a recovery reopens.
const recoverBatch = 1000

// sentWhere returns the filter as conditions. Those without a parameter are the indexes' own: a kept plan finds them by
// their text.
func sentWhere(supplierID string, filter SentFilter) (where string, args []any) {
	conditions, args := []string{`destination = ?`, `destination <> 'own'`}, []any{supplierID}
	switch filter.Status {
	case "":
	case Delivered:
		conditions = append(conditions, `status = 'delivered'`)
	default:
		conditions = append(conditions, `status = '`+string(filter.Status)+`'`, `status <> 'delivered'`)
	}
	if filter.RequestID != nil {
		conditions, args = append(conditions, `request_id = ?`), append(args, *filter.RequestID)
	}
	if !filter.Since.IsZero() {
		conditions, args = append(conditions, `created_at >= ?`), append(args, micros(filter.Since))
	}
	if !filter.Until.IsZero() {
		conditions, args = append(conditions, `created_at < ?`), append(args, micros(filter.Until))
	}
	return ` WHERE ` + strings.Join(conditions, ` AND `), args
}

// micros rounds up: nothing that is before the moment is at it.
func micros(at time.Time) int64 {
	return at.Add(time.Microsecond - 1).UnixMicro()
}

// countSent counts by indexes alone: delivered ones are all without the others.
func (s *store) countSent(ctx context.Context, supplierID string, filter SentFilter) (int64, error) {
	if filter.Status == Delivered && filter.RequestID == nil {
		all, others := filter, filter
		all.Status = ""
		total, err := s.countSent(ctx, supplierID, all)
		for _, status := range []Status{Pending, Dead, Failed} {
			if err != nil {
				return 0, err
			}
			var n int64
			others.Status = status
			n, err = s.countSent(ctx, supplierID, others)
			total -= n
		}
		return max(total, 0), err
	}
	where, args := sentWhere(supplierID, filter)
	var n int64
	if err := s.db.Reader(ctx).Raw(`SELECT count(*) FROM webhook_deliveries`+where, args...).Scan(&n).Error; err != nil {
		return 0, fmt.Errorf("count webhook deliveries: %w", err)
	}
	return n, nil
}

// sent reads one page, newest first: its ids by the index, then their rows.
func (s *store) sent(ctx context.Context, supplierID string, filter SentFilter, limit int,
	offset int64) ([]deliveryRow, error) {
	where, args := sentWhere(supplierID, filter)
	var rows []deliveryRow
	err := s.db.Reader(ctx).Raw(`SELECT d.* FROM (SELECT id FROM webhook_deliveries`+where+
		` ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?) AS p
		JOIN webhook_deliveries d ON d.id = p.id ORDER BY d.created_at DESC, d.id DESC`,
		append(args, limit, offset)...).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read webhook deliveries: %w", err)
	}
	return rows, nil
}

// sentByID returns nil when the supplier has no delivery of that id to its own receiver.
func (s *store) sentByID(ctx context.Context, supplierID, id string) (*deliveryRow, error) {
	var rows []deliveryRow
	err := s.db.Reader(ctx).Raw(`SELECT * FROM webhook_deliveries WHERE id = ?`, id).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read webhook delivery: %w", err)
	}
	if len(rows) == 0 || rows[0].Destination != supplierID {
		return nil, nil
	}
	return &rows[0], nil
}

func (r deliveryRow) sent() Sent {
	d := r.delivery()
	sent := Sent{
		ID: d.ID, RequestID: d.RequestID, EventType: webhook.TypeEstimated, Status: d.Status, AttemptCount: d.AttemptCount,
		NextAttempt: d.NextAttempt, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
	}
	if r.LastStartedAt != nil {
		last := r.last().answered(r.Worker != nil)
		sent.LastAttempt = &last.SentAttempt
	}
	return sent
}

func (r deliveryRow) last() attemptRow {
	return attemptRow{r.Attempts, *r.LastStartedAt, r.LastDurationUs, r.LastStatus, r.LastError, r.LastResponse}
}

// answered returns the attempt as its receiver's owner may see it.
func (r attemptRow) answered(underWay bool) AnsweredAttempt {
	a := r.attempt()
	sent := SentAttempt{Number: a.Number, StartedAt: a.Time, DurationMS: a.DurationMS, Status: a.Status}
	switch {
	case a.Error != nil:
		text := publicError(*a.Error)
		sent.Error = &text
	case a.DurationMS == nil && !underWay:
		text := interrupted
		sent.Error = &text
	}
	return AnsweredAttempt{sent, a.Response}
}

// sentDetail adds the event and all attempts.
func (s *store) sentDetail(ctx context.Context, row deliveryRow) (SentDetail, error) {
	detail := SentDetail{Sent: row.sent(), Attempts: []AnsweredAttempt{}}
	body, err := s.eventOf(ctx, row)
	if err != nil {
		return SentDetail{}, err
	}
	detail.Event = json.RawMessage(body)
	var rows []attemptRow
	err = s.db.Reader(ctx).Raw(`SELECT number, started_at, duration_us, status, error, response FROM webhook_attempts
		WHERE delivery_id = ? AND number < ? ORDER BY number`, row.ID, row.Attempts).Scan(&rows).Error
	if err != nil {
		return SentDetail{}, fmt.Errorf("read webhook attempts: %w", err)
	}
	for _, earlier := range rows {
		detail.Attempts = append(detail.Attempts, earlier.answered(false))
	}
	if row.LastStartedAt != nil {
		detail.Attempts = append(detail.Attempts, row.last().answered(row.Worker != nil))
	}
	return detail, nil
}

// eventOf returns the event as it is sent.
func (s *store) eventOf(ctx context.Context, row deliveryRow) ([]byte, error) {
	var rows []struct{ Body []byte }
	err := s.db.Reader(ctx).Raw(`SELECT body FROM webhook_events WHERE uid = ? AND round = ?`, row.UID,
		row.Round).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read webhook event: %w", err)
	}
	if len(rows) == 0 { // deleted by retention between two statements
		return nil, unknownDeliveries([]string{row.ID})
	}
	return rows[0].Body, nil
}

// reopenSent starts a whole new series of attempts for one delivery unless it is pending.
func (s *store) reopenSent(ctx context.Context, supplierID, id string, now time.Time) (bool, error) {
	result := s.db.From(ctx).Exec(`
		UPDATE webhook_deliveries SET status = 'pending', series = 0, next_attempt_at = ?, updated_at = ?
		WHERE id = ? AND destination = ? AND status <> 'pending'`, now.UnixMicro(), now.UnixMicro(), id, supplierID)
	if result.Error != nil {
		return false, fmt.Errorf("reopen webhook delivery: %w", result.Error)
	}
	return result.RowsAffected > 0, nil
}

// recoverSent reopens the next oldest deliveries that the filter chooses and that have their status since begun or
// longer, and returns when the last of them was made.
func (s *store) recoverSent(ctx context.Context, supplierID string, filter SentFilter, begun, now time.Time) (
	n int64, last time.Time, err error) {
	where, args := sentWhere(supplierID, filter)
	args = append([]any{now.UnixMicro(), now.UnixMicro()}, args...)
	var made []int64
	err = s.db.From(ctx).Raw(`
		UPDATE webhook_deliveries SET status = 'pending', series = 0, next_attempt_at = ?, updated_at = ?
		WHERE id IN (SELECT id FROM webhook_deliveries`+where+` AND updated_at <= ?
			ORDER BY created_at, id LIMIT ?`+s.db.RowLock(` FOR UPDATE`)+`)
		RETURNING created_at`, append(args, begun.UnixMicro(), recoverBatch)...).Scan(&made).Error
	if err != nil || len(made) == 0 {
		return 0, last, err
	}
	return int64(len(made)), time.UnixMicro(slices.Max(made)), nil
}

// history counts n buckets of the width from the given time on, by indexes alone.
func (s *store) history(ctx context.Context, supplierID string, from time.Time, width time.Duration, n int) (
	[]Bucket, error) {
	buckets := make([]Bucket, n)
	for i := range buckets {
		buckets[i].Start = from.Add(time.Duration(i) * width)
	}
	for status, add := range map[Status]func(*Bucket, int64){
		"":      func(b *Bucket, n int64) { b.Delivered += n },
		Pending: func(b *Bucket, n int64) { b.Pending, b.Delivered = b.Pending+n, b.Delivered-n },
		Dead:    func(b *Bucket, n int64) { b.Lost, b.Delivered = b.Lost+n, b.Delivered-n },
		Failed:  func(b *Bucket, n int64) { b.Lost, b.Delivered = b.Lost+n, b.Delivered-n },
	} {
		where, args := sentWhere(supplierID, SentFilter{Status: status, Since: from})
		var rows []struct{ Bucket, N int64 }
		err := s.db.Reader(ctx).Raw(`SELECT (created_at - CAST(? AS bigint)) / CAST(? AS bigint) AS bucket, count(*) AS n
			FROM webhook_deliveries`+where+` GROUP BY 1`,
			append([]any{from.UnixMicro(), width.Microseconds()}, args...)...).Scan(&rows).Error
		if err != nil {
			return nil, fmt.Errorf("count webhook deliveries by time: %w", err)
		}
		for _, row := range rows {
			add(&buckets[min(max(row.Bucket, 0), int64(n-1))], row.N)
		}
	}
	for i := range buckets {
		buckets[i].Delivered = max(buckets[i].Delivered, 0)
	}
	return buckets, nil
}
