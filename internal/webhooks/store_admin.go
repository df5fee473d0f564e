package webhooks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"github.com/supplyhub/supplyhub/internal/database"
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

// TableName returns gorm's name for the rows.
func (deliveryRow) TableName() string { return "webhook_deliveries" }

func (r deliveryRow) delivery() Delivery {
	d := Delivery{
		ID: r.ID, Destination: r.Destination, SupplierID: r.SupplierID, RequestID: r.RequestID, Round: r.Round,
		Status: r.Status,
		uid:    r.UID, worker: r.Worker, AttemptCount: r.Attempts, CreatedAt: time.UnixMicro(r.CreatedAt).UTC(),
		UpdatedAt: time.UnixMicro(r.UpdatedAt).UTC(),
	}
	if r.Status == Pending && r.Worker == nil {
		next := time.UnixMicro(r.NextAttemptAt).UTC()
		d.NextAttempt = &next
	}
	return d
}

// list returns as a whole what each hands over.
func (s *store) list(ctx context.Context, filter Filter) ([]Delivery, error) {
	return deliveries(s.chosen(ctx, filter).Order(newestFirst))
}

// lockByID holds the deliveries until the transaction ends: in one order everywhere, so that two of these wait for each
// other instead of deadlocking.
func (s *store) lockByID(ctx context.Context, ids []string) ([]Delivery, error) {
	query := s.db.From(ctx).Order("supplier_id, request_id, id")
	if s.postgres() {
		query = query.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
	}
	return deliveries(query.Where("id IN ?", ids))
}

// candidate is a delivery of a status, and whether the filter chooses it.
type candidate struct {
	id        string
	createdAt int64
	chosen    bool
}

func (c *candidate) places() []any { return []any{&c.id, &c.createdAt, &c.chosen} }

func chosenIDs(batch []candidate) (ids []string) {
	for _, c := range batch {
		if c.chosen {
			ids = append(ids, c.id)
		}
	}
	return ids
}

// candidates returns the next deliveries behind one and marks those that the filter chooses and that have had its
// status since the given time or longer: what is lost by the index of that, the oldest first, what is delivered by the
// ids. So one statement looks at no more rows than it returns.
func (s *store) candidates(ctx context.Context, filter Filter, until time.Time, after candidate, limit int) (
	[]candidate, error) {
	behind := `status IN ('dead', 'failed') AND status = $1 AND created_at >= $5 AND (created_at, id) > ($5, $6)
		ORDER BY created_at, id`
	if filter.Status == Delivered {
		behind = `CAST($5 AS bigint) >= 0 AND id > $6 ORDER BY id`
	}
	batch, err := database.Query(ctx, s.db.SQL(ctx), `SELECT id, created_at,
			status = $1 AND updated_at <= $2 AND created_at >= $3 AND (supplier_id = $4 OR $4 = '')
		FROM webhook_deliveries WHERE `+behind+` LIMIT $7`, []any{string(filter.Status), until.UnixMicro(),
		max(0, filter.Since.UnixMicro()), filter.SupplierID, after.createdAt, after.id, limit}, (*candidate).places)
	if err != nil {
		return nil, fmt.Errorf("choose webhook deliveries: %w", err)
	}
	return batch, nil
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

// reopen starts a whole new series of attempts for deliveries, beginning now.
func (s *store) reopen(ctx context.Context, ids []string, now time.Time) error {
	_, err := s.db.SQL(ctx).ExecContext(ctx, `UPDATE webhook_deliveries SET status = 'pending', series = 0,
			next_attempt_at = $1, updated_at = $1
		WHERE `+s.anyOf("id", 2), now.UnixMicro(), s.values(ids))
	if err != nil {
		return fmt.Errorf("reopen webhook deliveries: %w", database.Translate(err))
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

// detail returns a delivery with its attempts, oldest first; nil when there is none of that id.
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
