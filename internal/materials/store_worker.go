package materials

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// due reads those of the requests that still wait for their estimation, with bodies of about maxBytes at most; rest are
// those that did not fit. Bodies that cannot be decoded come with err set.
func (s *store) due(ctx context.Context, keys []requestKey, maxBytes int) (requests []*pending, rest []requestKey, err error) {
	from, args, err := s.requests(keys, `supplier_id, id, round, trace_id, body, status`, false)
	if err != nil {
		return nil, nil, err
	}
	type dueRow struct {
		requestRow
		fits *string // the body, unless too many bytes stand before it
	}
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), fmt.Sprintf(`SELECT supplier_id, id, round, trace_id, CASE WHEN before < %d THEN body END FROM (
			SELECT r.*, sum(length(r.body)) OVER (ORDER BY r.supplier_id, r.id) - length(r.body) AS before
			FROM %s WHERE r.status = 'enqueued') AS waiting`, maxBytes, from), args, func(r *dueRow) []any {
		return []any{&r.SupplierID, &r.ID, &r.Round, &r.TraceID, &r.fits}
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read requests to estimate: %w", err)
	}
	for _, row := range rows {
		if row.fits == nil {
			rest = append(rest, requestKey{row.SupplierID, row.ID})
			continue
		}
		row.Body = *row.fits
		request, err := row.request()
		if err != nil {
			request = Request{SupplierID: row.SupplierID, ID: row.ID, TraceID: row.TraceID}
		}
		requests = append(requests, &pending{Request: request, round: row.Round, err: poisoned(err)})
	}
	return requests, rest, nil
}

// round is which estimation an enqueued request is in; 0 when it is not enqueued.
func (s *store) round(ctx context.Context, key requestKey) (round int64, err error) {
	err = s.db.From(ctx).Raw(`SELECT round FROM material_requests WHERE supplier_id = ? AND id = ? AND status = 'enqueued'`,
		key.SupplierID, key.ID).Scan(&round).Error
	if err != nil {
		return 0, fmt.Errorf("read material request: %w", err)
	}
	return round, nil
}

// fail moves an enqueued request to failed and gives its trace id; moved is false when it was not enqueued.
func (s *store) fail(ctx context.Context, key requestKey, reason string, now time.Time) (traceID string, moved bool, err error) {
	return s.moveOne(ctx, `UPDATE material_requests SET status = 'failed', sweep_at = NULL, failure = ?, updated_at = ?
		WHERE supplier_id = ? AND id = ? AND status = 'enqueued'`, reason, now.UnixMicro(), key.SupplierID, key.ID)
}

// reopen moves a failed request back to enqueued, due for the sweeper at once: should its event not be stored, it is
// estimated again.
func (s *store) reopen(ctx context.Context, key requestKey, now time.Time) (traceID string, moved bool, err error) {
	return s.moveOne(ctx, `UPDATE material_requests SET status = 'enqueued', failure = '', updated_at = ?, sweep_at = ?
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
