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
		var ids []string
		err := s.db.From(ctx).Raw(`SELECT id FROM webhook_deliveries WHERE status = 'pending' AND destination = ? AND next_attempt_at <= ?
			ORDER BY next_attempt_at LIMIT ?`, destination, now.UnixMicro(), n).Scan(&ids).Error
		if err == nil && len(ids) > 0 {
			var batch []claimedRow
			batch, err = s.beginSQLite(ctx, ids, now, lease, attempts)
			claimed = append(claimed, batch...)
		}
		if err != nil {
			return nil, fmt.Errorf("claim webhook deliveries: %w", err)
		}
	}
	return claimed, nil
}

// beginSQLite begins the next attempt of deliveries; those that have had all of them are dead.
func (s *store) beginSQLite(ctx context.Context, ids []string, now, lease time.Time, attempts int64) ([]claimedRow, error) {
	dead, err := s.updateClaimed(ctx, `status = 'dead', next_attempt_at = ?, updated_at = ? WHERE series >= ?`, ids, lease.UnixMicro(), now.UnixMicro(), attempts)
	if err != nil {
		return nil, err
	}
	err = s.db.From(ctx).Exec(`INSERT INTO webhook_attempts (delivery_id, number, started_at, duration_us, status, error, response)
		SELECT id, attempts, last_started_at, last_duration_us, last_status, last_error, last_response
		FROM webhook_deliveries WHERE id IN ? AND attempts > 0 AND series < ?`, ids, attempts).Error
	if err != nil {
		return nil, err
	}
	begun, err := s.updateClaimed(ctx, `attempts = attempts + 1, series = series + 1, next_attempt_at = ?, updated_at = ?,
		last_started_at = ?, last_duration_us = NULL, last_status = NULL, last_error = '', last_response = NULL WHERE series < ?`,
		ids, lease.UnixMicro(), now.UnixMicro(), now.UnixMicro(), attempts)
	return append(dead, begun...), err
}

func (s *store) updateClaimed(ctx context.Context, set string, ids []string, args ...any) ([]claimedRow, error) {
	for _, id := range ids {
		args = append(args, id)
	}
	return database.Query(ctx, s.db.SQL(ctx), `UPDATE webhook_deliveries SET `+set+` AND id IN (?`+strings.Repeat(`, ?`, len(ids)-1)+`)
		RETURNING id, destination, supplier_id, request_id, attempts, series, status = 'dead',
			(SELECT trace_id FROM webhook_events WHERE key = event_key), (SELECT body FROM webhook_events WHERE key = event_key)`, args, (*claimedRow).places)
}

func (s *store) insertEventsSQLite(ctx context.Context, events []newEvent, now time.Time) (map[string]bool, error) {
	fresh := make(map[string]bool, len(events))
	for _, e := range events {
		result := s.db.From(ctx).Exec(`INSERT INTO webhook_events (key, first_id, trace_id, body, created_at) VALUES (?, ?, ?, ?, ?)
			ON CONFLICT (key) DO NOTHING`, e.Key, e.deliveries[0].id, e.TraceID, e.body, now.UnixMicro())
		if result.Error != nil {
			return nil, fmt.Errorf("insert webhook event: %w", result.Error)
		}
		if result.RowsAffected == 1 {
			fresh[e.Key] = true
		}
	}
	return fresh, nil
}

func (s *store) insertDeliveriesSQLite(ctx context.Context, deliveries []newDelivery, now time.Time) error {
	const row = `(?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?)`
	var args []any
	for _, d := range deliveries {
		args = append(args, d.id, d.eventKey, d.destination, d.supplierID, d.requestID, d.attempts(), d.attempts(),
			d.next(now).UnixMicro(), now.UnixMicro(), now.UnixMicro(), d.startedAt(now))
	}
	_, err := s.db.SQL(ctx).ExecContext(ctx, `INSERT INTO webhook_deliveries (id, event_key, destination, supplier_id, request_id, status, attempts, series,
		next_attempt_at, created_at, updated_at, last_started_at) VALUES `+row+strings.Repeat(`, `+row, len(deliveries)-1), args...)
	if err != nil {
		return fmt.Errorf("insert webhook deliveries: %w", database.Translate(err))
	}
	return nil
}

func (s *store) finishSQLite(ctx context.Context, results []result, now time.Time) (map[string]bool, error) {
	moved := make(map[string]bool, len(results))
	for _, r := range results {
		one, err := s.moved(ctx, `UPDATE webhook_deliveries SET
				status = CASE status WHEN 'pending' THEN ?1 ELSE status END,
				next_attempt_at = CASE status WHEN 'pending' THEN ?2 ELSE next_attempt_at END,
				updated_at = CASE status WHEN 'pending' THEN ?3 ELSE updated_at END,
				last_started_at = ?4, last_duration_us = ?5, last_status = ?6, last_error = ?7, last_response = ?8
			WHERE id = ?9 AND attempts = ?10
			RETURNING id, updated_at = ?3`,
			string(r.outcome.Status), r.outcome.Next.UnixMicro(), now.UnixMicro(), r.began.UnixMicro(), r.took.Microseconds(),
			r.status, r.err, r.response, r.id, r.number)
		if err != nil {
			return nil, err
		}
		for id, m := range one {
			moved[id] = m
		}
	}
	return moved, nil
}
