package receivers

import (
	"context"
	"hash/fnv"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/round"
)

// The end of a call says something of the address that was called. A call may end after the supplier has moved its
// receiver: a change of the address leaves its digest in the receiver's row, and news of another one change nothing.

// AddressOf returns the digest of a receiver's address, never 0; empty is the address of no receiver.
func AddressOf(url string) int64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(url)) // never fails
	return int64(h.Sum64() | 1)
}

// Moved has the supplier's receiver begin without failures at an address, or none. It joins the transaction of ctx,
// which stores the address. A pause stays, but for one of the service's when the receiver is removed. One that failed
// fails no longer by that: its pending deliveries are due, and the operator is notified as after a success.
func (d *Registry) Moved(ctx context.Context, supplierID, url string) error {
	failing, err := d.health.lockFailing(ctx, []string{supplierID})
	if err != nil {
		return err
	}
	if err := d.health.moved(ctx, supplierID, url, d.deps.Now()); err != nil || !failing[supplierID] {
		return err
	}
	if err := d.due.CatchUp(ctx, []string{supplierID}, d.deps.Now()); err != nil {
		return err
	}
	return d.notices.Note(ctx, notice.Notice{Type: notice.ReceiverRecovered, SupplierID: supplierID})
}

// Addresses returns the digests of the addresses of those receivers that were moved. It joins the transaction of ctx.
func (d *Registry) Addresses(ctx context.Context, suppliers []string) (map[string]int64, error) {
	db := d.health.DB
	found, err := database.Pairs[string, int64](ctx, db.SQL(ctx), `SELECT supplier_id, address FROM webhook_receivers
		WHERE `+db.AnyOf("supplier_id", 1), db.Values(suppliers))
	return found, errs.Doing("read where receivers are", err)
}

// moved keeps the last error of a receiver that failed for too long: it is why the service's pause stays (Gone).
func (s *healthStore) moved(ctx context.Context, supplierID, url string, now time.Time) error {
	_, err := database.Exec(ctx, s.DB.SQL(ctx), `
		INSERT INTO webhook_receivers AS r (supplier_id, shard, address, updated_at)
		VALUES ($1, $2, $3, $4)
		ON CONFLICT (supplier_id) DO UPDATE SET address = excluded.address, updated_at = excluded.updated_at,
			consecutive_failures = 0, failing_since = NULL, first_failure_at = NULL, last_success_at = NULL,
			last_failure_at = NULL, last_error = CASE WHEN r.paused_by = 'service' AND CAST($5 AS text) <> ''
				AND (r.failing_since IS NOT NULL OR r.last_failure_at IS NULL) THEN r.last_error ELSE '' END,
			paused_at = CASE WHEN r.paused_by = 'service' AND CAST($5 AS text) = '' THEN NULL ELSE r.paused_at END,
			paused_by = CASE WHEN r.paused_by = 'service' AND CAST($5 AS text) = '' THEN '' ELSE r.paused_by END`,
		supplierID, round.ShardOf(supplierID), AddressOf(url), now.UnixMicro(), url)
	return errs.Doing("store that a receiver has another address", err)
}
