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
	EventKey      string
	Destination   string
	SupplierID    string
	RequestID     int64
	Status        Status
	Attempts      int64
	NextAttemptAt int64
	CreatedAt     int64
	UpdatedAt     int64
}

// TableName is gorm's name for the rows.
func (deliveryRow) TableName() string { return "webhook_deliveries" }

func (r deliveryRow) delivery() Delivery {
	d := Delivery{
		ID: r.ID, Destination: r.Destination, SupplierID: r.SupplierID, RequestID: r.RequestID, Status: r.Status,
		AttemptCount: r.Attempts, CreatedAt: time.UnixMicro(r.CreatedAt).UTC(), UpdatedAt: time.UnixMicro(r.UpdatedAt).UTC(),
	}
	if r.Status == Pending {
		next := time.UnixMicro(r.NextAttemptAt).UTC()
		d.NextAttempt = &next
	}
	return d
}

func (s *store) list(ctx context.Context, filter Filter) ([]Delivery, error) {
	query := s.db.Reader(ctx).Order("created_at DESC, id DESC")
	if filter.Status != "" {
		query = query.Where("status = ?", filter.Status)
	}
	if filter.SupplierID != "" {
		query = query.Where("supplier_id = ?", filter.SupplierID)
	}
	if filter.RequestID != nil {
		query = query.Where("request_id = ?", *filter.RequestID)
	}
	if filter.SupplierID != "" && filter.RequestID != nil {
		key := fmt.Sprintf("%s/%d", filter.SupplierID, *filter.RequestID)
		query = query.Where("event_key > ? AND event_key < ?", key+"/", key+"0") // all rounds: 0 is what follows /
	}
	return deliveries(query)
}

func (s *store) byID(ctx context.Context, ids []string) ([]Delivery, error) {
	return deliveries(s.db.Reader(ctx).Where("id IN ?", ids))
}

// lockByID holds the deliveries until the transaction ends.
func (s *store) lockByID(ctx context.Context, ids []string) ([]Delivery, error) {
	return deliveries(s.locked(ctx).Where("id IN ?", ids))
}

// lockStatus holds the oldest deliveries of the status that were made and came to it in the given time.
func (s *store) lockStatus(ctx context.Context, status Status, since, until time.Time, limit int) ([]Delivery, error) {
	query := s.locked(ctx).Where("status = ? AND updated_at <= ?", status, until.UnixMicro()).Limit(limit)
	if !since.IsZero() {
		query = query.Where("created_at >= ?", since.UnixMicro())
	}
	return deliveries(query)
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

// attempts gives a delivery's attempts, oldest first.
func (s *store) attempts(ctx context.Context, id string) ([]Attempt, error) {
	var rows []struct {
		Number     int64
		StartedAt  int64
		DurationUs *int64
		Status     *int
		Error      string
		Response   []byte
	}
	err := s.db.Reader(ctx).Raw(`SELECT number, started_at, duration_us, status, error, response FROM webhook_attempts
		WHERE delivery_id = ? ORDER BY number`, id).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read webhook attempts: %w", err)
	}
	found := make([]Attempt, len(rows))
	for i, row := range rows {
		found[i] = Attempt{
			Number: row.Number, Time: time.UnixMicro(row.StartedAt).UTC(), Status: row.Status,
			Response: strings.ToValidUTF8(string(row.Response), "\uFFFD"),
		}
		if row.Error != "" {
			found[i].Error = &rows[i].Error
		}
		if row.DurationUs != nil {
			ms := *row.DurationUs / 1000
			found[i].DurationMS = &ms
		}
	}
	return found, nil
}
