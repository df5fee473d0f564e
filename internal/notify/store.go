package notify

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/notice"
)

type store struct{ db *database.DB }

func (s store) add(ctx context.Context, n notice.Notice, now time.Time) error {
	return database.Translate(s.db.From(ctx).Exec(`
		INSERT INTO operator_notices (type, supplier_id, subject, paused_by, error, at) VALUES (?, ?, ?, ?, ?, ?)`,
		n.Type, n.SupplierID, n.Subject, n.PausedBy, n.Error, now.UnixMicro()).Error)
}

func (s store) anyNotice(ctx context.Context) (waiting bool, err error) {
	err = s.db.Reader(ctx).Raw(`SELECT EXISTS (SELECT 1 FROM operator_notices)`).Scan(&waiting).Error
	if err != nil {
		return false, fmt.Errorf("look for operator notices: %w", database.Translate(err))
	}
	return waiting, nil
}

type noticeRow struct {
	ID                                         int64
	Type, SupplierID, Subject, PausedBy, Error string
	At                                         int64
}

// take deletes the oldest notices and returns them, oldest first.
func (s store) take(ctx context.Context, limit int) ([]stored, error) {
	var rows []noticeRow
	err := s.db.From(ctx).Raw(`DELETE FROM operator_notices
		WHERE id IN (SELECT id FROM operator_notices ORDER BY id LIMIT ?)
		RETURNING id, type, supplier_id, subject, paused_by, error, at`, limit).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("take operator notices: %w", database.Translate(err))
	}
	slices.SortFunc(rows, func(a, b noticeRow) int { return cmp.Or(cmp.Compare(a.At, b.At), cmp.Compare(a.ID, b.ID)) })
	notices := make([]stored, len(rows))
	for i, r := range rows {
		notices[i] = stored{notice.Notice{Type: r.Type, SupplierID: r.SupplierID, Subject: r.Subject, PausedBy: r.PausedBy,
			Error: r.Error}, time.UnixMicro(r.At).UTC()}
	}
	return notices, nil
}

type eventRow struct {
	ID, Type, SupplierID, SupplierName, PausedBy string
	Count                                        int64
	IDs                                          string `gorm:"column:ids"`
	LastError                                    string
	At, DueAt, Attempts                          int64
}

func (r eventRow) event() (*event, error) {
	e := &event{
		id: r.ID, kind: r.Type, supplierID: r.SupplierID, supplierName: r.SupplierName, pausedBy: r.PausedBy, count: r.Count,
		lastError: r.LastError, at: time.UnixMicro(r.At).UTC(), due: time.UnixMicro(r.DueAt).UTC(), attempts: r.Attempts,
	}
	if err := json.Unmarshal([]byte(r.IDs), &e.ids); err != nil {
		return nil, fmt.Errorf("decode operator event %s: %w", r.ID, err)
	}
	return e, nil
}

func eventsOf(rows []eventRow) ([]*event, error) {
	events := make([]*event, len(rows))
	for i, r := range rows {
		e, err := r.event()
		if err != nil {
			return nil, err
		}
		events[i] = e
	}
	return events, nil
}

// openEvents returns the ones that may take more in. One that is attempted meanwhile is not saved any more.
func (s store) openEvents(ctx context.Context, now time.Time) ([]*event, error) {
	var rows []eventRow
	err := s.db.From(ctx).Raw(`SELECT * FROM operator_events WHERE due_at > ? AND attempts = 0 AND type IN (?, ?)`+
		s.db.RowLock(` FOR UPDATE`),
		now.UnixMicro(), notice.DeliveryDead, notice.RequestFailed).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read open operator events: %w", database.Translate(err))
	}
	return eventsOf(rows)
}

func (s store) save(ctx context.Context, fresh []*event, changed map[*event]bool) error {
	for _, e := range fresh {
		ids, _ := json.Marshal(append([]string{}, e.ids...)) // of strings: it never fails
		err := s.db.From(ctx).Exec(`INSERT INTO operator_events
				(id, type, supplier_id, supplier_name, paused_by, count, ids, last_error, at, due_at, attempts)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, 0)`,
			e.id, e.kind, e.supplierID, e.supplierName, e.pausedBy, e.count, string(ids), e.lastError,
			e.at.UnixMicro(), e.due.UnixMicro()).Error
		if err != nil {
			return fmt.Errorf("insert operator event: %w", database.Translate(err))
		}
	}
	for e := range changed {
		ids, _ := json.Marshal(e.ids)
		err := s.db.From(ctx).Exec(`UPDATE operator_events SET count = ?, ids = ?, last_error = ? WHERE id = ?`, e.count,
			string(ids), e.lastError, e.id).Error
		if err != nil {
			return fmt.Errorf("add to operator event: %w", database.Translate(err))
		}
	}
	return nil
}

// claim begins an attempt for each of some due events.
func (s store) claim(ctx context.Context, now time.Time, lease time.Duration, limit int) ([]*event, error) {
	var rows []eventRow
	err := s.db.From(ctx).Raw(`UPDATE operator_events SET attempts = attempts + 1, due_at = ?
		WHERE id IN (SELECT id FROM operator_events WHERE due_at <= ? ORDER BY due_at LIMIT ?`+
		s.db.RowLock(` FOR UPDATE SKIP LOCKED`)+`) RETURNING *`,
		now.Add(lease).UnixMicro(), now.UnixMicro(), limit).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("begin to send operator events: %w", database.Translate(err))
	}
	return eventsOf(rows)
}

// forget and putOff change nothing when another process attempts the event meanwhile.

func (s store) forget(ctx context.Context, e *event) error {
	return database.Translate(s.db.From(ctx).Exec(`DELETE FROM operator_events WHERE id = ? AND attempts = ?`, e.id,
		e.attempts).Error)
}

func (s store) putOff(ctx context.Context, e *event, until time.Time) error {
	return database.Translate(s.db.From(ctx).Exec(`UPDATE operator_events SET due_at = ? WHERE id = ? AND attempts = ?`,
		until.UnixMicro(), e.id, e.attempts).Error)
}
