package materials

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// takenLimit is about how many bytes of webhook-ids are remembered of a request; beyond it the oldest are forgotten, and
// should one of them come again, its event is older than the stored one.
const takenLimit = 16 << 10

// mark is how a webhook-id stands in a request's column taken.
func (i receiptItem) mark() string {
	if i.webhookID == "" {
		return ""
	}
	return "\n" + i.webhookID + "\n"
}

// takeReceipts makes the events' estimates the requests' own where nothing speaks against it, and tells where it did. The
// items' requests are distinct and in the order in which all batches lock.
func (s *store) takeReceipts(ctx context.Context, items []receiptItem, now time.Time) (map[requestKey]bool, error) {
	table := receiptsSQLite
	if s.db.Engine() == database.Postgres {
		table = receiptsPostgres
	}
	source, args, err := table(items, now)
	if err != nil {
		return nil, err
	}
	taken, err := s.writtenKeys(ctx, `UPDATE material_requests SET status = 'estimated', sweep_at = NULL, failure = '', updated_at = k.now,
			event_at = k.at, estimates = k.offers, unavailable = k.others, taken = taken || k.mark
		FROM `+source+`
		WHERE supplier_id = k.supplier AND id = k.request AND status <> 'selected' AND (event_at IS NULL OR event_at <= k.at)
			AND length(taken) < `+strconv.Itoa(takenLimit)+` AND replace(taken, k.mark, '') = taken
		RETURNING supplier_id, id`, args)
	if err != nil {
		return nil, fmt.Errorf("store estimates: %w", err)
	}
	return taken, nil
}

func receiptsPostgres(items []receiptItem, now time.Time) (source string, args []any, err error) {
	n := len(items)
	suppliers, ids, at := make([]string, n), make([]int64, n), make([]int64, n)
	estimates, unavailable, marks := make([]string, n), make([]string, n), make([]string, n)
	for i, item := range items {
		suppliers[i], ids[i], at[i] = item.SupplierID, item.ID, item.eventAt
		estimates[i], unavailable[i], marks[i] = item.estimates, item.unavailable, item.mark()
	}
	return `(SELECT *, $7::bigint AS now FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::text[], $5::text[], $6::text[])
		AS k(supplier, request, at, offers, others, mark)) AS k`,
		[]any{suppliers, ids, at, estimates, unavailable, marks, now.UnixMicro()}, nil
}

func receiptsSQLite(items []receiptItem, now time.Time) (source string, args []any, err error) {
	rows := make([][]any, len(items))
	for i, item := range items {
		rows[i] = []any{item.SupplierID, item.ID, item.eventAt, item.estimates, item.unavailable, item.mark(), now.UnixMicro()}
	}
	batch, err := json.Marshal(rows)
	if err != nil {
		return "", nil, fmt.Errorf("encode received estimates: %w", err)
	}
	return `(SELECT value->>0 AS supplier, value->>1 AS request, value->>2 AS at, value->>3 AS offers, value->>4 AS others,
		value->>5 AS mark, value->>6 AS now FROM json_each(?)) AS k`, []any{string(batch)}, nil
}

// lockReceipts holds the requests, until the transaction ends, and reads what decides on their events. Unknown requests
// are absent.
func (s *store) lockReceipts(ctx context.Context, keys []requestKey) (map[requestKey]*receiptState, error) {
	from, args, err := s.requests(keys, `supplier_id, id, status, event_at, taken`, true)
	if err != nil {
		return nil, err
	}
	type row struct {
		requestKey
		receiptState
		eventAt *int64
	}
	rows, err := database.Query(ctx, s.db.SQL(ctx), `SELECT r.supplier_id, r.id, r.status, r.event_at, r.taken FROM `+from, args, func(r *row) []any {
		return []any{&r.SupplierID, &r.ID, &r.status, &r.eventAt, &r.taken}
	})
	if err != nil {
		return nil, fmt.Errorf("lock requests: %w", err)
	}
	states := make(map[requestKey]*receiptState, len(rows))
	for _, r := range rows {
		state := newReceiptState(r.status)
		if r.eventAt != nil {
			state.eventAt = *r.eventAt
		}
		state.taken = r.taken
		states[r.requestKey] = state
	}
	return states, nil
}

// saveReceipt writes down what a batch of events made of a locked request.
func (s *store) saveReceipt(ctx context.Context, key requestKey, state *receiptState, now time.Time) error {
	taken := state.taken
	if len(taken) > takenLimit {
		taken = taken[len(taken)-takenLimit:]
		taken = taken[strings.IndexByte(taken, '\n'):]
	}
	var err error
	if state.latest == nil {
		err = s.db.From(ctx).Exec(`UPDATE material_requests SET taken = ? WHERE supplier_id = ? AND id = ?`, taken, key.SupplierID, key.ID).Error
	} else {
		err = s.db.From(ctx).Exec(`UPDATE material_requests SET status = 'estimated', sweep_at = NULL, failure = '', updated_at = ?, event_at = ?,
			estimates = ?, unavailable = ?, taken = ? WHERE supplier_id = ? AND id = ?`, now.UnixMicro(), state.latest.eventAt,
			state.latest.estimates, state.latest.unavailable, taken, key.SupplierID, key.ID).Error
	}
	if err != nil {
		return fmt.Errorf("store estimates: %w", err)
	}
	return nil
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
