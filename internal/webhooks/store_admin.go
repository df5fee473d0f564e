package webhooks

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

type deliveryRow struct {
	ID            string
	UID           int64
	Round         int64
	Worker        *int64
	Destination   string
	SupplierID    string
	RequestID     int64
	Status        Status
	Attempts      int64
	NextAttemptAt int64
	CreatedAt     int64
	UpdatedAt     int64

	LastStartedAt  *int64
	LastDurationUs *int64
	LastStatus     *int
	LastError      string
	LastResponse   []byte
}

// TableName is gorm's name for the rows.
func (deliveryRow) TableName() string { return "webhook_deliveries" }

func (r deliveryRow) delivery() Delivery {
	d := Delivery{
		ID: r.ID, Destination: r.Destination, SupplierID: r.SupplierID, RequestID: r.RequestID, Round: r.Round, Status: r.Status,
		uid: r.UID, worker: r.Worker, AttemptCount: r.Attempts, CreatedAt: time.UnixMicro(r.CreatedAt).UTC(),
		UpdatedAt: time.UnixMicro(r.UpdatedAt).UTC(),
	}
	if r.Status == Pending && r.Worker == nil {
		next := time.UnixMicro(r.NextAttemptAt).UTC()
		d.NextAttempt = &next
	}
	return d
}

// list is each as a whole.
func (s *store) list(ctx context.Context, filter Filter) ([]Delivery, error) {
	return deliveries(s.chosen(ctx, filter).Order(newestFirst))
}

// lockByID holds the deliveries until the transaction ends.
func (s *store) lockByID(ctx context.Context, ids []string) ([]Delivery, error) {
	return deliveries(s.locked(ctx).Where("id IN ?", ids))
}

// lockChosen holds the chosen deliveries that came to their status by the given time, so many at most.
func (s *store) lockChosen(ctx context.Context, filter Filter, until time.Time, limit int) ([]Delivery, error) {
	return deliveries(filter.on(s.locked(ctx)).Where("updated_at <= ?", until.UnixMicro()).Limit(limit))
}

// locked reads in one order everywhere, so that two of these wait for each other instead of deadlocking.
func (s *store) locked(ctx context.Context) *gorm.DB {
	query := s.db.From(ctx).Order("supplier_id, request_id, id")
	if s.postgres() {
		query = query.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
	}
	return query
}

func deliveries(query *gorm.DB) ([]Delivery, error) {
	var rows []deliveryRow
	if err := query.Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read webhook deliveries: %w", err)
	}
	found := make([]Delivery, len(rows))
	for i, row := range rows {
		found[i] = row.delivery()
	}
	return found, nil
}

// reopen gives deliveries a whole new series of attempts, beginning now.
func (s *store) reopen(ctx context.Context, ids []string, now time.Time) error {
	for chunk := range slices.Chunk(ids, redeliverBatch) {
		err := s.db.From(ctx).Exec(`UPDATE webhook_deliveries SET status = 'pending', series = 0, next_attempt_at = ?, updated_at = ?
			WHERE id IN ?`, now.UnixMicro(), now.UnixMicro(), chunk).Error
		if err != nil {
			return fmt.Errorf("reopen webhook deliveries: %w", err)
		}
	}
	return nil
}

// attemptRow is an attempt as webhook_attempts keeps it.
type attemptRow struct {
	Number     int64
	StartedAt  int64
	DurationUs *int64
	Status     *int
	Error      string
	Response   []byte
}

func (r attemptRow) attempt() Attempt {
	a := Attempt{
		Number: r.Number, Time: time.UnixMicro(r.StartedAt).UTC(), Status: r.Status,
		Response: strings.ToValidUTF8(string(r.Response), "\uFFFD"),
	}
	if r.Error != "" {
		a.Error = &r.Error
	}
	if r.DurationUs != nil {
		ms := *r.DurationUs / 1000
		a.DurationMS = &ms
	}
	return a
}

// detail gives a delivery with its attempts, oldest first; nil when there is none of that id.
func (s *store) detail(ctx context.Context, id string) (*Detail, error) {
	var found []deliveryRow
	if err := s.db.Reader(ctx).Where("id = ?", id).Find(&found).Error; err != nil {
		return nil, fmt.Errorf("read webhook delivery: %w", err)
	}
	if len(found) == 0 {
		return nil, nil
	}
	var rows []attemptRow
	err := s.db.Reader(ctx).Raw(`SELECT number, started_at, duration_us, status, error, response FROM webhook_attempts
		WHERE delivery_id = ? AND number < ? ORDER BY number`, id, found[0].Attempts).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read webhook attempts: %w", err)
	}
	if d := found[0]; d.LastStartedAt != nil {
		rows = append(rows, attemptRow{d.Attempts, *d.LastStartedAt, d.LastDurationUs, d.LastStatus, d.LastError,
			d.LastResponse})
	}
	detail := &Detail{Delivery: found[0].delivery(), Attempts: make([]Attempt, len(rows))}
	for i, row := range rows {
		detail.Attempts[i] = row.attempt()
	}
	return detail, nil
}
