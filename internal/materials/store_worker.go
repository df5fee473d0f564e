package materials

import (
	"context"
	"fmt"
	"time"
)

// due reads those of the requests that still wait for their estimation, with bodies of about maxBytes at most; rest are
// those that did not fit. Bodies that cannot be decoded come with err set.
func (s *store) due(ctx context.Context, keys []requestKey, maxBytes int) (requests []*pending, rest []requestKey, err error) {
	params := make([]batchParam, len(keys))
	for i, key := range keys {
		params[i] = batchParam{SupplierID: key.SupplierID, ID: key.ID}
	}
	batch, err := batchJSON(params)
	if err != nil {
		return nil, nil, err
	}
	var rows []struct {
		SupplierID string
		ID         int64
		Round      int64
		TraceID    string
		Body       *string
	}
	err = s.db.Reader(ctx).Raw(`SELECT supplier_id, id, round, trace_id, CASE WHEN before < ? THEN body END AS body FROM (
			SELECT r.supplier_id, r.id, r.round, r.trace_id, r.body, sum(length(r.body)) OVER (ORDER BY r.supplier_id, r.id) - length(r.body) AS before
			FROM `+s.requests(false)+`
			WHERE r.status = 'enqueued' AND r.dispatched_at IS NULL) AS waiting`, maxBytes, batch).Scan(&rows).Error
	if err != nil {
		return nil, nil, fmt.Errorf("read requests to estimate: %w", err)
	}
	for _, row := range rows {
		if row.Body == nil {
			rest = append(rest, requestKey{row.SupplierID, row.ID})
			continue
		}
		request, err := requestRow{SupplierID: row.SupplierID, ID: row.ID, TraceID: row.TraceID, Body: *row.Body}.request()
		if err != nil {
			request = Request{SupplierID: row.SupplierID, ID: row.ID, TraceID: row.TraceID}
		}
		requests = append(requests, &pending{Request: request, round: row.Round, err: poisoned(err)})
	}
	return requests, rest, nil
}

// dispatch marks those of the requests that are still waiting, in the same round, and tells which they were.
func (s *store) dispatch(ctx context.Context, requests []*pending, now time.Time) (map[requestKey]bool, error) {
	params := make([]batchParam, len(requests))
	for i, p := range requests {
		params[i] = batchParam{SupplierID: p.SupplierID, ID: p.ID, Round: p.round}
	}
	batch, err := batchJSON(params)
	if err != nil {
		return nil, err
	}
	var rows []requestRow
	err = s.db.From(ctx).Raw(`WITH waiting AS (
			SELECT r.supplier_id, r.id FROM `+s.requests(true)+`
			WHERE r.round = k.round AND r.status = 'enqueued' AND r.dispatched_at IS NULL)
		UPDATE material_requests SET sweep_at = NULL, dispatched_at = ?
		WHERE (supplier_id, id) IN (SELECT supplier_id, id FROM waiting)
		RETURNING supplier_id, id`, batch, now.UnixMicro()).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("mark requests dispatched: %w", err)
	}
	dispatched := make(map[requestKey]bool, len(rows))
	for _, row := range rows {
		dispatched[requestKey{row.SupplierID, row.ID}] = true
	}
	return dispatched, nil
}

// fail moves an enqueued request to failed and gives its trace id; moved is false when it was not enqueued, or,
// with waitingOnly, when its events are stored already.
func (s *store) fail(ctx context.Context, key requestKey, reason string, waitingOnly bool, now time.Time) (traceID string, moved bool, err error) {
	statement := `UPDATE material_requests SET status = 'failed', sweep_at = NULL, failure = ?, updated_at = ?
		WHERE supplier_id = ? AND id = ? AND status = 'enqueued'`
	if waitingOnly {
		statement += ` AND dispatched_at IS NULL`
	}
	return s.moveOne(ctx, statement, reason, now.UnixMicro(), key.SupplierID, key.ID)
}

// reopen moves a failed request back to enqueued. One whose events were never stored is due for the sweeper at once.
func (s *store) reopen(ctx context.Context, key requestKey, now time.Time) (traceID string, moved bool, err error) {
	return s.moveOne(ctx, `UPDATE material_requests SET status = 'enqueued', failure = '', updated_at = ?,
		sweep_at = CASE WHEN dispatched_at IS NULL THEN CAST(? AS bigint) ELSE sweep_at END
		WHERE supplier_id = ? AND id = ? AND status = 'failed'`, now.UnixMicro(), now.UnixMicro(), key.SupplierID, key.ID)
}

func (s *store) moveOne(ctx context.Context, statement string, args ...any) (traceID string, moved bool, err error) {
	var rows []requestRow
	if err := s.db.From(ctx).Raw(statement+` RETURNING trace_id`, args...).Scan(&rows).Error; err != nil {
		return "", false, fmt.Errorf("move material request: %w", err)
	}
	if len(rows) == 0 {
		return "", false, nil
	}
	return rows[0].TraceID, true, nil
}
