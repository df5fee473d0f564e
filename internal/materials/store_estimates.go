package materials

import (
	"context"
	"fmt"
	"time"
)

// lockReceipts holds the requests that the events are for, until the transaction ends, and reads what decides on
// the events. Unknown requests are absent.
func (s *store) lockReceipts(ctx context.Context, items []receiptItem) (map[requestKey]*receiptState, error) {
	batch, err := receiptJSON(items)
	if err != nil {
		return nil, err
	}
	var locked []requestRow
	err = s.db.From(ctx).Raw(`SELECT r.supplier_id, r.id, r.status FROM `+s.requests(true), batch).Scan(&locked).Error
	if err != nil {
		return nil, fmt.Errorf("lock requests: %w", err)
	}
	states := make(map[requestKey]*receiptState, len(locked))
	for _, row := range locked {
		states[requestKey{row.SupplierID, row.ID}] = newReceiptState(row.Status)
	}
	// A statement of its own, begun under the locks: a join above would show these tables as they were before the wait.
	var rows []struct {
		SupplierID string
		ID         int64
		WebhookID  string
		EventAt    *int64
		Seen       bool
	}
	err = s.db.From(ctx).Raw(`SELECT k.supplier_id, k.id, k.webhook_id, e.event_at, w.webhook_id IS NOT NULL AS seen FROM `+s.batch()+`
		LEFT JOIN material_request_estimates e ON e.supplier_id = k.supplier_id AND e.request_id = k.id
		LEFT JOIN material_request_webhooks w ON w.supplier_id = k.supplier_id AND w.request_id = k.id
			AND w.webhook_id = k.webhook_id`, batch).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read received events: %w", err)
	}
	for _, row := range rows {
		state := states[requestKey{row.SupplierID, row.ID}]
		if state == nil {
			continue
		}
		if row.EventAt != nil {
			state.eventAt = *row.EventAt
		}
		if row.Seen {
			state.seen[row.WebhookID] = true
		}
	}
	return states, nil
}

// saveReceipts remembers the events' webhook-ids and makes the stored ones' estimates the requests' own.
func (s *store) saveReceipts(ctx context.Context, remembered, stored []receiptItem, now time.Time) error {
	at := now.UnixMicro()
	if err := s.execBatch(ctx, remembered, `INSERT INTO material_request_webhooks (supplier_id, request_id, webhook_id, received_at)
		SELECT k.supplier_id, k.id, k.webhook_id, CAST(? AS bigint) FROM `+s.batch()+` WHERE true
		ON CONFLICT DO NOTHING`, at); err != nil {
		return fmt.Errorf("remember webhook ids: %w", err)
	}
	if err := s.execBatch(ctx, stored, `INSERT INTO material_request_estimates
			(supplier_id, request_id, event_at, estimates, unavailable, received_at)
		SELECT k.supplier_id, k.id, k.event_at, k.estimates, k.unavailable, CAST(? AS bigint) FROM `+s.batch()+` WHERE true
		ON CONFLICT (supplier_id, request_id) DO UPDATE SET event_at = excluded.event_at, estimates = excluded.estimates,
			unavailable = excluded.unavailable, received_at = excluded.received_at`, at); err != nil {
		return fmt.Errorf("store estimates: %w", err)
	}
	if err := s.execBatch(ctx, stored, `UPDATE material_requests SET status = 'estimated', sweep_at = NULL, failure = '', updated_at = ?
		WHERE (supplier_id, id) IN (SELECT k.supplier_id, k.id FROM `+s.batch()+`)`, at); err != nil {
		return fmt.Errorf("move requests to estimated: %w", err)
	}
	return nil
}

// execBatch runs a statement whose two parameters are a moment and the batch, unless the batch is empty.
func (s *store) execBatch(ctx context.Context, items []receiptItem, statement string, at int64) error {
	if len(items) == 0 {
		return nil
	}
	batch, err := receiptJSON(items)
	if err != nil {
		return err
	}
	return s.db.From(ctx).Exec(statement, at, batch).Error
}

func receiptJSON(items []receiptItem) (string, error) {
	params := make([]batchParam, len(items))
	for i, item := range items {
		params[i] = batchParam{
			SupplierID: item.SupplierID, ID: item.ID, WebhookID: item.webhookID,
			EventAt: item.eventAt, Estimates: item.estimates, Unavailable: item.unavailable,
		}
	}
	return batchJSON(params)
}

// choose moves an estimated request to selected; false when it is not estimated any more.
func (s *store) choose(ctx context.Context, key requestKey, estimateID string, at int64) (bool, error) {
	result := s.db.From(ctx).Exec(`UPDATE material_requests SET status = 'selected', selected_estimate_id = ?,
		selected_at = ?, updated_at = ? WHERE supplier_id = ? AND id = ? AND status = 'estimated'`,
		estimateID, at, at, key.SupplierID, key.ID)
	if result.Error != nil {
		return false, fmt.Errorf("store selection: %w", result.Error)
	}
	return result.RowsAffected == 1, nil
}
