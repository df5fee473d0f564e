package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/round"
)

// claimPostgres claims for all destinations at once.
func (s *AttemptStore) claimPostgres(ctx context.Context, wants map[string]int, now time.Time, worker,
	attempts int64) ([]Claimed, error) {
	var destinations []string
	var counts []int64
	for destination, n := range wants {
		destinations, counts = append(destinations, destination), append(counts, int64(n))
	}
	return s.claimOf(ctx, s.dueFirst(nil), nil, destinations, counts, now, worker, attempts)
}

// dueFirst selects, for claimOf, what is due by its schedule.
func (s *AttemptStore) dueFirst(suppliers []string) string {
	return ` CROSS JOIN LATERAL (
				SELECT * FROM webhook_deliveries
				WHERE status = 'pending' AND worker IS NULL AND destination = wanted.destination AND next_attempt_at <= $3` +
		s.DB.Of(suppliers, `supplier_id`, `$6`) + `
				ORDER BY next_attempt_at LIMIT wanted.n FOR UPDATE SKIP LOCKED) d`
}

// claimOf looks rows up by arrays and LATERAL, as a join over young tables may go through all of them. first joins, to
// the wanted, those deliveries that come first. suppliers are empty, or one where suppliers are on several servers.
//
// All of c is this one statement: it locks what is due and free, copies the attempt before into webhook_attempts,
// begins the next one in the row, and makes dead what has had its whole series. The last happens to a delivery whose
// last attempt was interrupted (f), and when the schedule became shorter. The body comes with it: who sends reads no
// more.
func (s *AttemptStore) claimOf(ctx context.Context, first string, suppliers, destinations []string, counts []int64,
	now time.Time, worker, attempts int64) ([]Claimed, error) {
	args := []any{destinations, counts, now.UnixMicro(), worker, attempts}
	of := s.DB.Of(suppliers, `supplier_id`, `$6`)
	if of != "" {
		args = append(args, suppliers)
	}
	claimed, err := database.Query(ctx, s.DB.SQL(ctx), `
		WITH due AS (
			SELECT d.* FROM unnest($1::text[], $2::bigint[]) AS wanted(destination, n)`+first+`
		), history AS (
			INSERT INTO webhook_attempts (supplier_id, delivery_id, number, started_at, duration_us, status, error,
				response, url)
			SELECT supplier_id, id, attempts, last_started_at, last_duration_us, last_status, last_error, last_response, last_url
			FROM due WHERE attempts > 0 AND series < $5
		), begun AS (
			UPDATE webhook_deliveries SET attempts = attempts + 1, series = series + 1, worker = $4, updated_at = $3,
				last_started_at = $3, last_duration_us = NULL, last_status = NULL, last_error = '', last_response = NULL,
				last_url = NULL
			WHERE id = ANY (ARRAY(SELECT id FROM due WHERE series < $5))`+of+`
			RETURNING id, uid, round, destination, supplier_id, request_id, attempts, series, false AS dead,
				last_status, last_error
		), dead AS (
			UPDATE webhook_deliveries SET status = 'dead', updated_at = $3
			WHERE id = ANY (ARRAY(SELECT id FROM due WHERE series >= $5))`+of+`
			RETURNING id, uid, round, destination, supplier_id, request_id, attempts, series, true AS dead,
				last_status, last_error
		)
		SELECT c.id, c.destination, c.supplier_id, c.request_id, c.uid, c.round, c.attempts, c.series, c.dead,
			c.last_status, c.last_error, e.trace_id, coalesce(e.trace_parent, ''), e.body
		FROM (SELECT * FROM begun UNION ALL SELECT * FROM dead) c
		CROSS JOIN LATERAL (SELECT trace_id, trace_parent, body FROM webhook_events
			WHERE uid = c.uid AND round = c.round`+of+` OFFSET 0) e`, args, (*Claimed).places)
	return claimed, errs.Doing("claim webhook deliveries", err)
}

// insertEventsPostgres reads the receivers in the same statement: one round trip less in each batch of work. It sees
// them as they were when it began. A pause that is committed later comes by a wake-up before the attempt is sent;
// without one an attempt that is sent 0.9 s later asks first (d).
func (s *AttemptStore) insertEventsPostgres(ctx context.Context, events []DraftEvent, suppliers []string,
	now time.Time) (map[round.Round]bool, map[string]Standing, error) {
	n := len(events)
	uids, numbers, nonces, owners := make([]int64, n), make([]int64, n), make([]int64, n), make([]string, n)
	traces, parents, bodies := make([]string, n), make([]string, n), make([][]byte, n)
	for i, e := range events {
		uids[i], numbers[i], nonces[i], owners[i] = e.Round.UID, e.Round.Number, e.Ids.Nonce, e.Round.SupplierID
		traces[i], parents[i], bodies[i] = e.TraceID, e.TraceParent, e.Stored
	}
	type row struct { // one of the two, the other's columns are zero
		round.Round
		Standing
	}
	rows, err := database.Query(ctx, s.DB.SQL(ctx), `
		WITH stored AS (
			INSERT INTO webhook_events (uid, round, nonce, trace_id, body, trace_parent, created_at, supplier_id)
			SELECT u, r, n, t, b, nullif(p, ''), $6, s
			FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::text[], $8::text[], $9::bigint[])
				AS e(u, r, t, b, p, s, n)
			ON CONFLICT DO NOTHING RETURNING uid, round
		)
		SELECT uid, round, '', 0::bigint, false FROM stored
		UNION ALL SELECT 0, 0, `+standingColumns+` FROM webhook_receivers r WHERE r.supplier_id = ANY($7)`,
		[]any{uids, numbers, traces, bodies, parents, now.UnixMicro(), suppliers, owners, nonces},
		func(r *row) []any { return []any{&r.UID, &r.Number, &r.supplierID, &r.Failures, &r.Paused} })
	if err != nil {
		return nil, nil, fmt.Errorf("insert webhook events: %w", err)
	}
	stored, known := make(map[round.Round]bool, len(rows)), make(map[string]Standing, len(suppliers))
	for _, r := range rows {
		if r.supplierID == "" {
			stored[r.Round] = true
		} else {
			known[r.supplierID] = r.Standing
		}
	}
	fresh := lists.Pairs(events, func(e DraftEvent) (round.Round, bool) {
		return e.Round, stored[round.Round{UID: e.Round.UID, Number: e.Round.Number}]
	})
	return fresh, known, nil
}

// insertDeliveriesPostgres has a delivery that waits due at once; the time of one that is begun counts for nothing
// until e or f sets it.
func (s *AttemptStore) insertDeliveriesPostgres(ctx context.Context, deliveries []DraftDelivery, now time.Time) error {
	n := len(deliveries)
	ids, destinations, suppliers := make([]string, n), make([]string, n), make([]string, n)
	uids, numbers, requests := make([]int64, n), make([]int64, n), make([]int64, n)
	begun, started, workers := make([]int64, n), make([]*int64, n), make([]*int64, n)
	for i, d := range deliveries {
		ids[i], destinations[i], suppliers[i] = d.ID, d.Destination, d.Round.SupplierID
		uids[i], numbers[i], requests[i] = d.Round.UID, d.Round.Number, d.Round.RequestID
		begun[i], workers[i], started[i] = d.first(now)
	}
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `
		INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, worker,
			attempts, series, next_attempt_at, created_at, updated_at, last_started_at)
		SELECT i, u, n, d, s, r, 'pending', w, a, a, $10, $10, $10, b
		FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::bigint[], $7::bigint[],
			$8::bigint[], $9::bigint[])
			AS d(i, u, n, d, s, r, w, a, b) ORDER BY i COLLATE "C"`, // an index takes them at its end
		ids, uids, numbers, destinations, suppliers, requests, workers, begun, started, now.UnixMicro())
	return errs.Doing("insert webhook deliveries", err)
}

// finishPostgres names no status in its condition, and the worker so that no index serves it: over a young table the
// planner may choose to go through all that is pending, or attempted. The attempt's number keeps a late result from the
// attempt after it, the worker keeps it from one that was taken over: see e.
func (s *AttemptStore) finishPostgres(ctx context.Context, results []Result, now time.Time) (map[string]bool, error) {
	n := len(results)
	ids, errorTexts, outcomes, responses := make([]string, n), make([]string, n), make([]string, n), make([][]byte, n)
	numbers, began, took, next := make([]int64, n), make([]int64, n), make([]int64, n), make([]int64, n)
	statuses, workers, suppliers, urls := make([]*int64, n), make([]int64, n), make([]string, n), make([]string, n)
	for i, r := range results {
		ids[i], suppliers[i], workers[i], urls[i] = r.ID, r.Round.SupplierID, r.Worker, r.URL
		errorTexts[i], outcomes[i], responses[i] = r.Err, string(r.Outcome.Status), r.response
		numbers[i], began[i], took[i], next[i], statuses[i] = r.Number, r.Began.UnixMicro(), r.Took.Microseconds(),
			r.Outcome.Next.UnixMicro(), r.status
	}
	return s.written(ctx, `
			UPDATE webhook_deliveries d SET status = r.outcome, worker = NULL, next_attempt_at = r.next, updated_at = $9,
				last_started_at = r.began, last_duration_us = r.took, last_status = r.status, last_error = r.error,
				last_response = r.response, last_url = nullif(r.url, '')
			FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::bytea[], $7::text[],
				$8::bigint[], $10::bigint[], $11::bigint[], $12::text[], $13::text[])
				AS r(id, number, took, status, error, response, outcome, next, began, worker, supplier, url)
			WHERE d.id = r.id AND d.supplier_id = r.supplier AND d.attempts = r.number
				AND d.worker IS NOT DISTINCT FROM r.worker`+s.DB.Of(suppliers, `d.supplier_id`, `$12`)+`
			RETURNING d.id`,
		ids, numbers, took, statuses, errorTexts, responses, outcomes, next, now.UnixMicro(), began, workers,
		suppliers, urls)
}
