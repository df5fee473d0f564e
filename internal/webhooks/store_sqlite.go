package webhooks

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

func (s *store) claimSQLite(ctx context.Context, wants map[string]int, now, lease time.Time, attempts int64) ([]claimedRow, error) {
	var claimed []claimedRow
	for destination, n := range wants {
		// The attempt before, if nobody has written its end down.
		_, err := s.db.SQL(ctx).ExecContext(ctx, `INSERT INTO webhook_attempts (delivery_id, number, started_at)
			SELECT id, attempts, updated_at FROM (SELECT * FROM webhook_deliveries
				WHERE status = 'pending' AND destination = ?1 AND next_attempt_at <= ?2 ORDER BY next_attempt_at LIMIT ?3)
			WHERE attempts > 0 ON CONFLICT DO NOTHING`, destination, now.UnixMicro(), n)
		if err != nil {
			return nil, fmt.Errorf("note interrupted webhook attempts: %w", database.Translate(err))
		}
		rows, err := s.db.SQL(ctx).QueryContext(ctx, `
			UPDATE webhook_deliveries SET
				status = CASE WHEN series >= ?1 THEN 'dead' ELSE 'pending' END,
				attempts = attempts + (series < ?1), series = series + (series < ?1),
				next_attempt_at = ?2, updated_at = ?3
			WHERE id IN (SELECT id FROM webhook_deliveries
				WHERE status = 'pending' AND destination = ?4 AND next_attempt_at <= ?3
				ORDER BY next_attempt_at LIMIT ?5)
			RETURNING id, destination, supplier_id, request_id, attempts, series, status = 'dead',
				(SELECT trace_id FROM webhook_events WHERE key = event_key), (SELECT body FROM webhook_events WHERE key = event_key)`,
			attempts, lease.UnixMicro(), now.UnixMicro(), destination, n)
		if err != nil {
			return nil, fmt.Errorf("claim webhook deliveries: %w", database.Translate(err))
		}
		batch, err := scanAll(rows, func(c *claimedRow) []any {
			return []any{&c.id, &c.destination, &c.supplierID, &c.requestID, &c.number, &c.series, &c.dead, &c.traceID, &c.body}
		})
		if err != nil {
			return nil, fmt.Errorf("claim webhook deliveries: %w", err)
		}
		claimed = append(claimed, batch...)
	}
	return claimed, nil
}

func (s *store) insertSQLite(ctx context.Context, events []newEvent, deliveries []newDelivery, now time.Time) (map[string]bool, error) {
	var args []any
	for _, e := range events {
		args = append(args, e.Key, e.Event.Data.SupplierID, e.Event.Data.RequestID, e.TraceID, e.body, now.UnixMicro())
	}
	if err := s.insertRows(ctx, `webhook_events (key, supplier_id, request_id, trace_id, body, created_at)`, 6, args); err != nil {
		return nil, err
	}
	inserted := make(map[string]bool, len(deliveries))
	for _, d := range deliveries {
		result := s.db.From(ctx).Exec(`INSERT INTO webhook_deliveries (id, event_key, destination, supplier_id, request_id, status, attempts, series,
				next_attempt_at, created_at, updated_at)
			VALUES (?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?) ON CONFLICT (event_key, destination) DO NOTHING`,
			d.id, d.eventKey, d.destination, d.supplierID, d.requestID, d.attempts(), d.attempts(), d.next(now).UnixMicro(), now.UnixMicro(), now.UnixMicro())
		if result.Error != nil {
			return nil, fmt.Errorf("insert webhook delivery: %w", result.Error)
		}
		inserted[d.id] = result.RowsAffected == 1
	}
	return inserted, nil
}

// insertRows inserts rows of the given width where they are not stored yet.
func (s *store) insertRows(ctx context.Context, into string, width int, args []any) error {
	if len(args) == 0 {
		return nil
	}
	row := `(?` + strings.Repeat(`, ?`, width-1) + `)`
	statement := `INSERT INTO ` + into + ` VALUES ` + row + strings.Repeat(`, `+row, len(args)/width-1) + ` ON CONFLICT DO NOTHING`
	if _, err := s.db.SQL(ctx).ExecContext(ctx, statement, args...); err != nil {
		return fmt.Errorf("insert into %s: %w", into, database.Translate(err))
	}
	return nil
}

func (s *store) finishSQLite(ctx context.Context, results []result, now time.Time) (map[string]bool, error) {
	moved := make(map[string]bool, len(results))
	for _, r := range results {
		err := s.db.From(ctx).Exec(`INSERT INTO webhook_attempts (delivery_id, number, started_at, duration_us, status, error, response)
			VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (delivery_id, number) DO UPDATE SET duration_us = excluded.duration_us, status = excluded.status,
				error = excluded.error, response = excluded.response`,
			r.id, r.number, r.began.UnixMicro(), r.took.Microseconds(), r.status, r.err, r.response).Error
		if err != nil {
			return nil, fmt.Errorf("write webhook attempt down: %w", err)
		}
		result := s.db.From(ctx).Exec(`UPDATE webhook_deliveries SET status = ?, next_attempt_at = ?, updated_at = ?
			WHERE id = ? AND attempts = ? AND status = 'pending'`,
			r.outcome.Status, r.outcome.Next.UnixMicro(), now.UnixMicro(), r.id, r.number)
		if result.Error != nil {
			return nil, fmt.Errorf("write webhook delivery down: %w", result.Error)
		}
		moved[r.id] = result.RowsAffected == 1
	}
	return moved, nil
}
