package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// claimPostgres looks rows up by arrays and LATERAL, as a join over young tables may go through all of them.
func (s *store) claimPostgres(ctx context.Context, wants map[string]int, now, lease time.Time, attempts int64) ([]claimedRow, error) {
	var destinations []string
	var counts []int64
	for destination, n := range wants {
		destinations, counts = append(destinations, destination), append(counts, int64(n))
	}
	claimed, err := database.Query(ctx, s.db.SQL(ctx), `
		WITH due AS (
			SELECT d.* FROM unnest($1::text[], $2::bigint[]) AS wanted(destination, n)
			CROSS JOIN LATERAL (
				SELECT * FROM webhook_deliveries
				WHERE status = 'pending' AND destination = wanted.destination AND next_attempt_at <= $3
				ORDER BY next_attempt_at LIMIT wanted.n FOR UPDATE SKIP LOCKED) d
		), history AS (
			INSERT INTO webhook_attempts (delivery_id, number, started_at, duration_us, status, error, response)
			SELECT id, attempts, last_started_at, last_duration_us, last_status, last_error, last_response
			FROM due WHERE attempts > 0 AND series < $5
		), begun AS (
			UPDATE webhook_deliveries SET attempts = attempts + 1, series = series + 1, next_attempt_at = $4, updated_at = $3,
				last_started_at = $3, last_duration_us = NULL, last_status = NULL, last_error = '', last_response = NULL
			WHERE id = ANY (ARRAY(SELECT id FROM due WHERE series < $5))
			RETURNING id, event_key, destination, supplier_id, request_id, attempts, series, false AS dead
		), dead AS (
			UPDATE webhook_deliveries SET status = 'dead', next_attempt_at = $4, updated_at = $3
			WHERE id = ANY (ARRAY(SELECT id FROM due WHERE series >= $5))
			RETURNING id, event_key, destination, supplier_id, request_id, attempts, series, true AS dead
		)
		SELECT c.id, c.destination, c.supplier_id, c.request_id, c.attempts, c.series, c.dead, e.trace_id, e.body
		FROM (SELECT * FROM begun UNION ALL SELECT * FROM dead) c
		CROSS JOIN LATERAL (SELECT trace_id, body FROM webhook_events WHERE key = c.event_key OFFSET 0) e`,
		[]any{destinations, counts, now.UnixMicro(), lease.UnixMicro(), attempts}, (*claimedRow).places)
	if err != nil {
		return nil, fmt.Errorf("claim webhook deliveries: %w", err)
	}
	return claimed, nil
}

func (s *store) insertEventsPostgres(ctx context.Context, events []newEvent, now time.Time) (map[string]bool, error) {
	n := len(events)
	keys, firsts, traces, bodies := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	for i, e := range events {
		keys[i], firsts[i], traces[i], bodies[i] = e.Key, e.deliveries[0].id, e.TraceID, e.body
	}
	fresh, err := database.Query(ctx, s.db.SQL(ctx), `
		INSERT INTO webhook_events (key, first_id, trace_id, body, created_at)
		SELECT k, f, t, b, $5 FROM unnest($1::text[], $2::text[], $3::text[], $4::bytea[]) AS e(k, f, t, b)
		ON CONFLICT (key) DO NOTHING RETURNING key`,
		[]any{keys, firsts, traces, bodies, now.UnixMicro()}, func(key *string) []any { return []any{key} })
	if err != nil {
		return nil, fmt.Errorf("insert webhook events: %w", err)
	}
	return setOf(fresh), nil
}

func (s *store) insertDeliveriesPostgres(ctx context.Context, deliveries []newDelivery, now time.Time) error {
	n := len(deliveries)
	ids, eventKeys, destinations, owners := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	requests, begun, due, started := make([]int64, n), make([]int64, n), make([]int64, n), make([]*int64, n)
	for i, d := range deliveries {
		ids[i], eventKeys[i], destinations[i], owners[i], requests[i] = d.id, d.eventKey, d.destination, d.supplierID, d.requestID
		begun[i], due[i], started[i] = d.attempts(), d.next(now).UnixMicro(), d.startedAt(now)
	}
	_, err := s.db.SQL(ctx).ExecContext(ctx, `
		INSERT INTO webhook_deliveries (id, event_key, destination, supplier_id, request_id, status, attempts, series,
			next_attempt_at, created_at, updated_at, last_started_at)
		SELECT i, k, d, s, r, 'pending', n, n, at, $9, $9, b
		FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[]) AS d(i, k, d, s, r, n, at, b)`,
		ids, eventKeys, destinations, owners, requests, begun, due, started, now.UnixMicro())
	if err != nil {
		return fmt.Errorf("insert webhook deliveries: %w", database.Translate(err))
	}
	return nil
}

// finishPostgres names no status in its condition: with one the planner may choose to go through all that is pending.
func (s *store) finishPostgres(ctx context.Context, results []result, now time.Time) (map[string]bool, error) {
	n := len(results)
	ids, errorTexts, outcomes, responses := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	numbers, began, took, next, statuses := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n), make([]*int64, n)
	for i, r := range results {
		ids[i], errorTexts[i], outcomes[i], responses[i] = r.id, r.err, string(r.outcome.Status), r.response
		numbers[i], began[i], took[i], next[i], statuses[i] = r.number, r.began.UnixMicro(), r.took.Microseconds(), r.outcome.Next.UnixMicro(), r.status
	}
	return s.moved(ctx, `
		UPDATE webhook_deliveries d SET
			status = CASE d.status WHEN 'pending' THEN r.outcome ELSE d.status END,
			next_attempt_at = CASE d.status WHEN 'pending' THEN r.next ELSE d.next_attempt_at END,
			updated_at = CASE d.status WHEN 'pending' THEN $9 ELSE d.updated_at END,
			last_started_at = r.began, last_duration_us = r.took, last_status = r.status, last_error = r.error, last_response = r.response
		FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[], $7::text[], $8::bigint[], $10::bigint[])
			AS r(id, number, took, status, error, response, outcome, next, began)
		WHERE d.id = r.id AND d.attempts = r.number
		RETURNING d.id, d.updated_at = $9`,
		ids, numbers, took, statuses, errorTexts, responses, outcomes, next, now.UnixMicro(), began)
}

// moved runs a statement that returns the ids of what it wrote and whether each was moved.
func (s *store) moved(ctx context.Context, statement string, args ...any) (map[string]bool, error) {
	type row struct {
		id    string
		moved bool
	}
	list, err := database.Query(ctx, s.db.SQL(ctx), statement, args, func(r *row) []any { return []any{&r.id, &r.moved} })
	if err != nil {
		return nil, fmt.Errorf("write webhook attempts down: %w", err)
	}
	moved := make(map[string]bool, len(list))
	for _, r := range list {
		moved[r.id] = r.moved
	}
	return moved, nil
}
