package deliveries

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/round"
)

func (s *AttemptStore) claimSQLite(ctx context.Context, wants map[string]int, now time.Time, worker,
	attempts int64) ([]Claimed, error) {
	var claimed []Claimed
	for destination, n := range wants {
		var ids []string
		err := s.DB.From(ctx).Raw(`SELECT id FROM webhook_deliveries
			WHERE status = 'pending' AND worker IS NULL AND destination = ? AND next_attempt_at <= ?
			ORDER BY next_attempt_at LIMIT ?`, destination, now.UnixMicro(), n).Scan(&ids).Error
		if err == nil && len(ids) > 0 {
			var batch []Claimed
			batch, err = s.beginSQLite(ctx, ids, now, worker, attempts)
			claimed = append(claimed, batch...)
		}
		if err != nil {
			return nil, fmt.Errorf("claim webhook deliveries: %w", err)
		}
	}
	return claimed, nil
}

// beginSQLite begins the next attempt of deliveries; those that have had all of them are dead.
func (s *AttemptStore) beginSQLite(ctx context.Context, ids []string, now time.Time, worker, attempts int64) (
	[]Claimed, error) {
	dead, err := s.updateClaimed(ctx, `status = 'dead', updated_at = ? WHERE series >= ?`, ids, now.UnixMicro(), attempts)
	if err != nil {
		return nil, err
	}
	err = s.DB.From(ctx).Exec(`
		INSERT INTO webhook_attempts (supplier_id, delivery_id, number, started_at, duration_us, status, error,
			response)
		SELECT supplier_id, id, attempts, last_started_at, last_duration_us, last_status, last_error, last_response
		FROM webhook_deliveries WHERE id IN ? AND attempts > 0 AND series < ?`, ids, attempts).Error
	if err != nil {
		return nil, err
	}
	begun, err := s.updateClaimed(ctx, `attempts = attempts + 1, series = series + 1, worker = ?, updated_at = ?,
		last_started_at = ?, last_duration_us = NULL, last_status = NULL, last_error = '', last_response = NULL
		WHERE series < ?`,
		ids, worker, now.UnixMicro(), now.UnixMicro(), attempts)
	return append(dead, begun...), err
}

func (s *AttemptStore) updateClaimed(ctx context.Context, set string, ids []string, args ...any) ([]Claimed, error) {
	for _, id := range ids {
		args = append(args, id)
	}
	return database.Query(ctx, s.DB.SQL(ctx), `UPDATE webhook_deliveries SET `+set+` AND id IN (?`+
		strings.Repeat(`, ?`, len(ids)-1)+`)
		RETURNING id, destination, supplier_id, request_id, uid, round, attempts, series, status = 'dead',
			(SELECT trace_id FROM webhook_events e WHERE e.uid = webhook_deliveries.uid AND e.round = webhook_deliveries.round),
			coalesce((SELECT trace_parent FROM webhook_events e
				WHERE e.uid = webhook_deliveries.uid AND e.round = webhook_deliveries.round), ''),
			(SELECT body FROM webhook_events e WHERE e.uid = webhook_deliveries.uid AND e.round = webhook_deliveries.round)`,
		args, (*Claimed).places)
}

func (s *AttemptStore) insertEventsSQLite(ctx context.Context, events []DraftEvent, now time.Time) (
	map[round.Round]bool, error) {
	fresh := make(map[round.Round]bool, len(events))
	for _, e := range events {
		result := s.DB.From(ctx).Exec(`INSERT INTO webhook_events
				(supplier_id, uid, round, nonce, trace_id, trace_parent, body, created_at)
			VALUES (?, ?, ?, ?, ?, nullif(?, ''), ?, ?) ON CONFLICT DO NOTHING`, e.Round.SupplierID, e.Round.UID, e.Round.Number,
			e.Ids.Nonce, e.TraceID, e.TraceParent, e.Stored, now.UnixMicro())
		if result.Error != nil {
			return nil, fmt.Errorf("insert webhook event: %w", result.Error)
		}
		fresh[e.Round] = result.RowsAffected == 1
	}
	return fresh, nil
}

func (s *AttemptStore) insertDeliveriesSQLite(ctx context.Context, deliveries []DraftDelivery, now time.Time) error {
	const row = `(?, ?, ?, ?, ?, ?, 'pending', ?, ?, ?, ?, ?, ?, ?)`
	var args []any
	for _, d := range deliveries {
		args = append(args, d.ID, d.Round.UID, d.Round.Number, d.Destination, d.Round.SupplierID, d.Round.RequestID,
			d.attemptedBy(),
			d.attempts(), d.attempts(), now.UnixMicro(), now.UnixMicro(), now.UnixMicro(), d.startedAt(now))
	}
	_, err := s.DB.SQL(ctx).ExecContext(ctx,
		`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, worker,
			attempts, series, next_attempt_at, created_at, updated_at, last_started_at)
		VALUES `+row+strings.Repeat(`, `+row, len(deliveries)-1), args...)
	if err != nil {
		return fmt.Errorf("insert webhook deliveries: %w", database.Translate(err))
	}
	return nil
}

func (s *AttemptStore) finishSQLite(ctx context.Context, results []Result, now time.Time) (map[string]bool, error) {
	written := make(map[string]bool, len(results))
	for _, r := range results {
		one, err := s.written(ctx, `UPDATE webhook_deliveries SET status = ?, worker = NULL, next_attempt_at = ?,
				updated_at = ?, last_started_at = ?, last_duration_us = ?, last_status = ?, last_error = ?, last_response = ?
			WHERE id = ? AND attempts = ? AND worker = ? RETURNING id`,
			string(r.Outcome.Status), r.Outcome.Next.UnixMicro(), now.UnixMicro(), r.Began.UnixMicro(), r.Took.Microseconds(),
			r.status, r.Err, r.response, r.ID, r.Number, r.Worker)
		if err != nil {
			return nil, err
		}
		for id := range one {
			written[id] = true
		}
	}
	return written, nil
}
