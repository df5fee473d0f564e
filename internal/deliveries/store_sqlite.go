package deliveries

import (
	"context"
	"fmt"
	"maps"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// claimSQLite claims destination by destination. SQLite has one writer: nothing is locked, and no other worker claims
// before this transaction ends.
func (s *AttemptStore) claimSQLite(ctx context.Context, wants map[string]int, now time.Time, worker,
	attempts int64) ([]Claimed, error) {
	var claimed []Claimed
	for destination, n := range wants {
		some, err := s.claimFirst(ctx, now, worker, attempts, `next_attempt_at <= $2 ORDER BY next_attempt_at LIMIT $3`,
			destination, now.UnixMicro(), n)
		if err != nil {
			return nil, err
		}
		claimed = append(claimed, some...)
	}
	return claimed, nil
}

// claimFirst claims those deliveries that wait for a destination, the first argument, and come first.
func (s *AttemptStore) claimFirst(ctx context.Context, now time.Time, worker, attempts int64, first string,
	args ...any) (claimed []Claimed, err error) {
	ids, err := database.Column[string](ctx, s.DB.SQL(ctx), `SELECT id FROM webhook_deliveries
		WHERE status = 'pending' AND worker IS NULL AND destination = $1 AND `+first, args...)
	if err == nil && len(ids) > 0 {
		claimed, err = s.beginSQLite(ctx, ids, now, worker, attempts)
	}
	return claimed, errs.Doing("claim webhook deliveries", err)
}

// beginSQLite begins the next attempt of deliveries; those that have had all of them are dead. The order of its
// statements matters: the attempt before is copied into webhook_attempts while the row still has it.
func (s *AttemptStore) beginSQLite(ctx context.Context, ids []string, now time.Time, worker, attempts int64) (
	[]Claimed, error) {
	chosen := s.DB.Values(ids)
	dead, err := s.updateClaimed(ctx, `status = 'dead', updated_at = $2 WHERE series >= $3`, chosen, now.UnixMicro(),
		attempts)
	if err != nil {
		return nil, err
	}
	_, err = database.Exec(ctx, s.DB.SQL(ctx), `
		INSERT INTO webhook_attempts (supplier_id, delivery_id, number, started_at, duration_us, status, error,
			response, url)
		SELECT supplier_id, id, attempts, last_started_at, last_duration_us, last_status, last_error, last_response, last_url
		FROM webhook_deliveries WHERE `+s.DB.AnyOf("id", 1)+` AND attempts > 0 AND series < $2`, chosen, attempts)
	if err != nil {
		return nil, err
	}
	begun, err := s.updateClaimed(ctx, `attempts = attempts + 1, series = series + 1, worker = $4, updated_at = $2,
		last_started_at = $2, last_duration_us = NULL, last_status = NULL, last_error = '', last_response = NULL,
		last_url = NULL
		WHERE series < $3`, chosen, now.UnixMicro(), attempts, worker)
	return append(dead, begun...), err
}

// updateClaimed changes those of the deliveries that its first argument has, and returns them.
func (s *AttemptStore) updateClaimed(ctx context.Context, set string, args ...any) ([]Claimed, error) {
	return database.Query(ctx, s.DB.SQL(ctx), `UPDATE webhook_deliveries SET `+set+` AND `+s.DB.AnyOf("id", 1)+`
		RETURNING id, destination, supplier_id, request_id, uid, round, attempts, series, status = 'dead',
			last_status, last_error,
			(SELECT trace_id FROM webhook_events e WHERE e.uid = webhook_deliveries.uid AND e.round = webhook_deliveries.round),
			coalesce((SELECT trace_parent FROM webhook_events e
				WHERE e.uid = webhook_deliveries.uid AND e.round = webhook_deliveries.round), ''),
			(SELECT body FROM webhook_events e WHERE e.uid = webhook_deliveries.uid AND e.round = webhook_deliveries.round)`,
		args, (*Claimed).places)
}

// insertEventsSQLite stores event by event: the count of rows says which of them were there before.
func (s *AttemptStore) insertEventsSQLite(ctx context.Context, events []DraftEvent, now time.Time) (
	map[round.Round]bool, error) {
	fresh := make(map[round.Round]bool, len(events))
	for _, e := range events {
		n, err := database.Exec(ctx, s.DB.SQL(ctx), `INSERT INTO webhook_events
				(supplier_id, uid, round, nonce, trace_id, trace_parent, body, created_at)
			VALUES ($1, $2, $3, $4, $5, nullif($6, ''), $7, $8) ON CONFLICT DO NOTHING`, e.Round.SupplierID, e.Round.UID,
			e.Round.Number, e.Ids.Nonce, e.TraceID, e.TraceParent, e.Stored, now.UnixMicro())
		if err != nil {
			return nil, fmt.Errorf("insert webhook event: %w", err)
		}
		fresh[e.Round] = n == 1
	}
	return fresh, nil
}

// insertDeliveriesSQLite stores all of them in one statement, whose text grows with their number.
func (s *AttemptStore) insertDeliveriesSQLite(ctx context.Context, deliveries []DraftDelivery, now time.Time) error {
	var args []any
	for _, d := range deliveries {
		attempts, worker, startedAt := d.first(now)
		args = append(args, d.ID, d.Round.UID, d.Round.Number, d.Destination, d.Round.SupplierID, d.Round.RequestID,
			string(Pending), worker, attempts, attempts, now.UnixMicro(), now.UnixMicro(), now.UnixMicro(), startedAt)
	}
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id,
			request_id, status, worker, attempts, series, next_attempt_at, created_at, updated_at, last_started_at)
		VALUES `+database.Places(len(deliveries), len(args)/len(deliveries)), args...)
	return errs.Doing("insert webhook deliveries", err)
}

// finishSQLite writes result by result, each under the condition that e needs: this worker's, this attempt.
func (s *AttemptStore) finishSQLite(ctx context.Context, results []Result, now time.Time) (map[string]bool, error) {
	written := make(map[string]bool, len(results))
	for _, r := range results {
		one, err := s.written(ctx, `UPDATE webhook_deliveries SET status = $1, worker = NULL, next_attempt_at = $2,
				updated_at = $3, last_started_at = $4, last_duration_us = $5, last_status = $6, last_error = $7, last_response = $8,
				last_url = nullif($12, '')
			WHERE id = $9 AND attempts = $10 AND worker = $11 RETURNING id`,
			string(r.Outcome.Status), r.Outcome.Next.UnixMicro(), now.UnixMicro(), r.Began.UnixMicro(), r.Took.Microseconds(),
			r.status, r.Err, r.response, r.ID, r.Number, r.Worker, r.URL)
		if err != nil {
			return nil, err
		}
		maps.Copy(written, one)
	}
	return written, nil
}
