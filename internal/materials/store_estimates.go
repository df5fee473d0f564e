package materials

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// Storing estimates is one statement for a whole batch of own events, and one UPDATE for each other event. The
// estimates of an own event stay in the event; the row only says of which round it has them (received). Those that a
// supplier posts itself are in no event and so in the row.

// webhookIDsLimit is about how many bytes of webhook-ids are remembered of a request; beyond it the oldest are
// forgotten, and should one of them come again, its event is older than the stored one.
const webhookIDsLimit = 16 << 10

// mark returns how a webhook-id is kept in the column webhook_ids.
func (i receiptItem) mark() string {
	if i.webhookID == "" {
		return ""
	}
	return "\n" + i.webhookID + "\n"
}

// takeReceipts stores the own events' estimates where the request waits for just them, and returns whose it stored.
// The items' requests are distinct and in the order in which all batches lock. The estimates of stored events stay in
// them.
func (s *store) takeReceipts(ctx context.Context, items []receiptItem, now time.Time) (map[requestKey]bool, error) {
	if len(items) == 0 {
		return nil, nil
	}
	for i := range items {
		if items[i].stored {
			items[i].estimates, items[i].unavailable = "", ""
		}
	}
	build := database.Either(s.db.Dialect, s.receiptsPostgres, s.receiptsSQLite)
	taken := make(map[requestKey]bool, len(items))
	supplier := func(i receiptItem) string { return i.SupplierID }
	err := database.BySupplier(s.db, items, supplier, func(items []receiptItem) error {
		statement, args := build(items, now)
		some, err := database.Query(ctx, s.db.SQL(ctx), statement, args, (*requestKey).place)
		maps.Copy(taken, database.Set(some))
		return err
	})
	return taken, errs.Doing("store estimates", err)
}

// takingReceipts has places for the table of the items and for a condition. It does not say status = 'enqueued', with
// which a plan made over an empty table goes through all requests.
const takingReceipts = `UPDATE material_requests SET status = 'estimated', due_at = NULL, failure = '',
		updated_at = k.now, received = k.number, estimates = nullif(k.offers, ''),
		unavailable = nullif(k.others, '')
	FROM %s
	WHERE supplier_id = k.supplier AND id = k.request AND material_requests.uid = k.uid AND round = k.number
		AND received < k.number AND status NOT IN ('estimated', 'selected', 'failed')%s
	RETURNING supplier_id, id`

// receiptsPostgres passes the items as arrays: one plan for every size.
func (s *store) receiptsPostgres(items []receiptItem, now time.Time) (statement string, args []any) {
	n := len(items)
	suppliers, ids, uids, numbers := make([]string, n), make([]int64, n), make([]int64, n), make([]int64, n)
	estimates, unavailable := make([]string, n), make([]string, n)
	for i, item := range items {
		suppliers[i], ids[i], uids[i], numbers[i] = item.SupplierID, item.ID, item.uid, item.number
		estimates[i], unavailable[i] = item.estimates, item.unavailable
	}
	const rows = `(SELECT *, $7::bigint AS now
		FROM unnest($1::text[], $2::bigint[], $3::bigint[], $4::bigint[], $5::text[], $6::text[])
		AS k(supplier, request, uid, number, offers, others)) AS k`
	return fmt.Sprintf(takingReceipts, rows, s.db.Of(suppliers, `supplier_id`, `$1`)),
		[]any{suppliers, ids, uids, numbers, estimates, unavailable, now.UnixMicro()}
}

// receiptsSQLite passes the items as one JSON text.
func (s *store) receiptsSQLite(items []receiptItem, now time.Time) (statement string, args []any) {
	rows := lists.Of(items, func(i receiptItem) []any {
		return []any{i.SupplierID, i.ID, i.uid, i.number, i.estimates, i.unavailable, now.UnixMicro()}
	})
	return fmt.Sprintf(takingReceipts, `(SELECT value->>0 AS supplier, value->>1 AS request,
		value->>2 AS uid, value->>3 AS number, value->>4 AS offers, value->>5 AS others, value->>6 AS now
		FROM json_each($1)) AS k`, ``), []any{s.db.Values(rows)}
}

// lockReceipts holds the requests, until the transaction ends, and reads what decides on their events. Unknown requests
// are absent. The rows are locked in the order of all batches, so workers and suppliers that send to the same requests
// wait for each other.
func (s *store) lockReceipts(ctx context.Context, keys []requestKey) (map[requestKey]*receiptState, error) {
	type row struct {
		requestKey
		receiptState
	}
	rows, err := queryRequests(ctx, s, s.db.SQL(ctx), keys, `supplier_id, id, status, uid, round, received,
		coalesce(round_at, created_at) AS began, posted_at, webhook_ids`, true,
		`SELECT r.supplier_id, r.id, r.status, r.uid, r.round, r.received, r.began, r.posted_at, r.webhook_ids FROM %s`,
		func(r *row) []any {
			return []any{&r.SupplierID, &r.ID, &r.status, &r.uid, &r.round, &r.received, &r.began, &r.postedAt, &r.webhookIDs}
		})
	states := lists.Pairs(rows, func(r row) (requestKey, *receiptState) { return r.requestKey, &r.receiptState })
	return states, errs.Doing("lock requests", err)
}

// saveReceipt writes down what a batch of events made of a locked request. An event that is only remembered leaves the
// state and the time of the last change as they are.
func (s *store) saveReceipt(ctx context.Context, key requestKey, state *receiptState, now time.Time) error {
	webhookIDs := state.webhookIDs
	if len(webhookIDs) > webhookIDsLimit {
		webhookIDs = webhookIDs[len(webhookIDs)-webhookIDsLimit:]
		webhookIDs = webhookIDs[strings.IndexByte(webhookIDs, '\n'):]
	}
	set, args := `webhook_ids = $3`, []any{key.SupplierID, key.ID, webhookIDs}
	if state.latest != nil {
		set += `, status = 'estimated', due_at = NULL, failure = '', updated_at = $4,
			received = $5, posted_at = $6, estimates = $7, unavailable = $8`
		args = append(args, now.UnixMicro(), state.received, state.postedAt, state.latest.estimates,
			state.latest.unavailable)
	}
	_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE material_requests SET `+set+` WHERE supplier_id = $1 AND id = $2`,
		args...)
	return errs.Doing("store estimates", err)
}

// choose moves an estimated request to selected; false when it is not estimated any more. selected_at is what orders
// are listed by.
func (s *store) choose(ctx context.Context, key requestKey, estimateID string, at int64) (bool, error) {
	n, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE material_requests SET status = 'selected',
		selected_estimate_id = $1, selected_at = $2, updated_at = $2
		WHERE supplier_id = $3 AND id = $4 AND status = 'estimated'`, estimateID, at, key.SupplierID, key.ID)
	return n == 1, errs.Doing("store selection", err)
}
