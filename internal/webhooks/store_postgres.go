package webhooks

import (
	"context"
	"database/sql"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

func (s *store) claimPostgres(ctx context.Context, wants map[string]int, now, lease time.Time, attempts int64) ([]claimedRow, error) {
	var destinations []string
	var counts []int64
	for destination, n := range wants {
		destinations, counts = append(destinations, destination), append(counts, int64(n))
	}
	rows, err := s.db.SQL(ctx).QueryContext(ctx, `
		WITH due AS (
			SELECT d.* FROM unnest($1::text[], $2::bigint[]) AS wanted(destination, n)
			CROSS JOIN LATERAL (
				SELECT id, attempts, updated_at FROM webhook_deliveries
				WHERE status = 'pending' AND destination = wanted.destination AND next_attempt_at <= $3
				ORDER BY next_attempt_at LIMIT wanted.n FOR UPDATE SKIP LOCKED) d
		), claimed AS (
			UPDATE webhook_deliveries SET
				status = CASE WHEN series >= $5 THEN 'dead' ELSE 'pending' END,
				attempts = attempts + CASE WHEN series >= $5 THEN 0 ELSE 1 END,
				series = series + CASE WHEN series >= $5 THEN 0 ELSE 1 END,
				next_attempt_at = $4, updated_at = $3
			WHERE id IN (SELECT id FROM due)
			RETURNING id, event_key, destination, supplier_id, request_id, attempts, series, status
		), interrupted AS ( -- the attempt before, if nobody has written its end down
			INSERT INTO webhook_attempts (delivery_id, number, started_at)
			SELECT id, attempts, updated_at FROM due WHERE attempts > 0
			ON CONFLICT DO NOTHING
		)
		SELECT c.id, c.destination, c.supplier_id, c.request_id, c.attempts, c.series, c.status = 'dead', e.trace_id, e.body
		FROM claimed c JOIN webhook_events e ON e.key = c.event_key`,
		destinations, counts, now.UnixMicro(), lease.UnixMicro(), attempts)
	if err != nil {
		return nil, fmt.Errorf("claim webhook deliveries: %w", database.Translate(err))
	}
	return scanAll(rows, func(c *claimedRow) []any {
		return []any{&c.id, &c.destination, &c.supplierID, &c.requestID, &c.number, &c.series, &c.dead, &c.traceID, &c.body}
	})
}

func (s *store) insertPostgres(ctx context.Context, events []newEvent, deliveries []newDelivery, now time.Time) (map[string]bool, error) {
	var keys, suppliers, traces []string
	var requests []int64
	var bodies [][]byte
	for _, e := range events {
		keys, suppliers, traces = append(keys, e.Key), append(suppliers, e.Event.Data.SupplierID), append(traces, e.TraceID)
		requests, bodies = append(requests, e.Event.Data.RequestID), append(bodies, e.body)
	}
	var ids, eventKeys, destinations, owners []string
	var numbers, begun, due []int64
	for _, d := range deliveries {
		ids, eventKeys, destinations = append(ids, d.id), append(eventKeys, d.eventKey), append(destinations, d.destination)
		owners, numbers = append(owners, d.supplierID), append(numbers, d.requestID)
		begun, due = append(begun, d.attempts()), append(due, d.next(now).UnixMicro())
	}
	rows, err := s.db.SQL(ctx).QueryContext(ctx, `
		WITH events AS (
			INSERT INTO webhook_events (key, supplier_id, request_id, trace_id, body, created_at)
			SELECT k, s, r, t, b, $13 FROM unnest($1::text[], $2::text[], $3::bigint[], $4::text[], $5::bytea[]) AS e(k, s, r, t, b)
			ON CONFLICT (key) DO NOTHING
		)
		INSERT INTO webhook_deliveries (id, event_key, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at)
		SELECT i, k, d, s, r, 'pending', n, n, at, $13, $13
		FROM unnest($6::text[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $12::bigint[]) AS d(i, k, d, s, r, n, at)
		ON CONFLICT (event_key, destination) DO NOTHING
		RETURNING id`,
		keys, suppliers, requests, traces, bodies, ids, eventKeys, destinations, owners, numbers, begun, due, now.UnixMicro())
	if err != nil {
		return nil, fmt.Errorf("insert webhook events: %w", database.Translate(err))
	}
	return scanIDs(rows)
}

func (s *store) finishPostgres(ctx context.Context, results []result, now time.Time) (map[string]bool, error) {
	var ids, errorTexts, outcomes []string
	var numbers, began, took, next []int64
	var statuses []*int64
	var responses [][]byte
	for _, r := range results {
		ids, errorTexts, outcomes = append(ids, r.id), append(errorTexts, r.err), append(outcomes, string(r.outcome.Status))
		numbers, began = append(numbers, r.number), append(began, r.began.UnixMicro())
		took, next = append(took, r.took.Microseconds()), append(next, r.outcome.Next.UnixMicro())
		statuses, responses = append(statuses, r.status), append(responses, r.response)
	}
	rows, err := s.db.SQL(ctx).QueryContext(ctx, `
		WITH results AS (
			SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[], $7::text[], $8::bigint[], $10::bigint[])
				AS r(id, number, took, status, error, response, outcome, next, began)
		), attempts AS (
			INSERT INTO webhook_attempts (delivery_id, number, started_at, duration_us, status, error, response)
			SELECT id, number, began, took, status, error, response FROM results
			ON CONFLICT (delivery_id, number) DO UPDATE SET duration_us = excluded.duration_us, status = excluded.status,
				error = excluded.error, response = excluded.response
		)
		UPDATE webhook_deliveries d SET status = r.outcome, next_attempt_at = r.next, updated_at = $9
		FROM results r WHERE d.id = r.id AND d.attempts = r.number AND d.status = 'pending'
		RETURNING d.id`,
		ids, numbers, took, statuses, errorTexts, responses, outcomes, next, now.UnixMicro(), began)
	if err != nil {
		return nil, fmt.Errorf("write webhook attempts down: %w", database.Translate(err))
	}
	return scanIDs(rows)
}

func scanIDs(rows *sql.Rows) (map[string]bool, error) {
	ids, err := scanAll(rows, func(id *string) []any { return []any{id} })
	if err != nil {
		return nil, err
	}
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return set, nil
}

// scanAll reads rows to their end, each into the places of a fresh T.
func scanAll[T any](rows *sql.Rows, places func(*T) []any) ([]T, error) {
	defer rows.Close()
	var list []T
	for rows.Next() {
		var v T
		if err := rows.Scan(places(&v)...); err != nil {
			return nil, fmt.Errorf("read rows: %w", database.Translate(err))
		}
		list = append(list, v)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read rows: %w", database.Translate(err))
	}
	return list, nil
}
