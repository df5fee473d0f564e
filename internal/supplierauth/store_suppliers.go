package supplierauth

import (
	"context"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/apikey"
	"github.com/supplyhub/supplyhub/internal/database"
)

// Suppliers, their keys and their secrets: few rows, changed by the operator. Each batch of calls asks for its
// receivers by one statement over all its suppliers. Lifetimes are stored in seconds, scopes in one text.

// supplierColumns are the columns of a supplier, in the order of stored and suppliers.
const supplierColumns = `id, name, webhook_url, access_ttl, refresh_ttl, scopes, receiver_concurrency, active,
	created_at, updated_at`

// stored returns what is stored of a supplier.
func stored(s Supplier) []any {
	return []any{s.ID, s.Name, s.WebhookURL, int64(s.AccessTTL / time.Second), int64(s.RefreshTTL / time.Second),
		strings.Join(s.Scopes, " "), s.ReceiverConcurrency, s.Active, s.CreatedAt.UnixMicro(), s.UpdatedAt.UnixMicro()}
}

// suppliers reads the suppliers that the rest of the statement chooses.
func (s store) suppliers(ctx context.Context, rest string, args ...any) ([]Supplier, error) {
	type row struct {
		Supplier
		access, refresh, created, updated int64
		scopes                            string
	}
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT `+supplierColumns+` FROM suppliers `+rest, args,
		func(r *row) []any {
			return []any{&r.ID, &r.Name, &r.WebhookURL, &r.access, &r.refresh, &r.scopes, &r.ReceiverConcurrency, &r.Active,
				&r.created, &r.updated}
		})
	list := make([]Supplier, len(rows))
	for i, r := range rows {
		r.AccessTTL, r.RefreshTTL = time.Duration(r.access)*time.Second, time.Duration(r.refresh)*time.Second
		r.Scopes, r.CreatedAt, r.UpdatedAt = strings.Fields(r.scopes), time.UnixMicro(r.created).UTC(),
			time.UnixMicro(r.updated).UTC()
		list[i] = r.Supplier
	}
	return list, err
}

// insertSupplier stores a new supplier; its id is random, so none has it.
func (s store) insertSupplier(ctx context.Context, supplier Supplier) error {
	return s.exec(ctx, `INSERT INTO suppliers (`+supplierColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)`, stored(supplier)...)
}

// lockSupplier reads a supplier and makes other changes of it wait for this transaction. Errors: errs.NotFound.
func (s store) lockSupplier(ctx context.Context, id string) (Supplier, error) {
	found, err := s.suppliers(ctx, `WHERE id = $1`+s.db.RowLock(` FOR UPDATE`), id)
	if err = unlessFound(len(found) > 0, err); err != nil {
		return Supplier{}, err
	}
	return found[0], nil
}

// saveSupplier writes all of a supplier that lockSupplier holds.
func (s store) saveSupplier(ctx context.Context, supplier Supplier) error {
	return s.exec(ctx, `UPDATE suppliers SET name = $2, webhook_url = $3, access_ttl = $4,
		refresh_ttl = $5, scopes = $6, receiver_concurrency = $7, active = $8, created_at = $9, updated_at = $10
		WHERE id = $1`, stored(supplier)...)
}

// saveActive activates or deactivates a supplier, and writes nothing else of it.
func (s store) saveActive(ctx context.Context, id string, active bool, now time.Time) error {
	return s.exec(ctx, `UPDATE suppliers SET active = $1, updated_at = $2 WHERE id = $3`, active,
		now.UnixMicro(), id)
}

// keysOf are the API keys of a supplier.
type keysOf struct {
	store
	supplier string
}

// Insert implements apikey.Keys.
func (k keysOf) Insert(ctx context.Context, key apikey.Stored) error {
	return k.exec(ctx, `INSERT INTO supplier_api_keys (supplier_id, hash, last4, created_at)
		VALUES ($1, $2, $3, $4)`, k.supplier, key.Hash[:], key.Last4, key.CreatedAt.UnixMicro())
}

// Expire implements apikey.Keys.
func (k keysOf) Expire(ctx context.Context, until time.Time) error {
	return k.exec(ctx, `UPDATE supplier_api_keys SET active_until = $1
		WHERE supplier_id = $2 AND (active_until IS NULL OR active_until > $1)`, until.UnixMicro(), k.supplier)
}

// insertSecret stores a secret that signs from now on, next to those that still do.
func (s store) insertSecret(ctx context.Context, id, supplierID string, sealed []byte, now time.Time) error {
	return s.exec(ctx, `INSERT INTO supplier_webhook_secrets (id, supplier_id, sealed, created_at)
		VALUES ($1, $2, $3, $4)`, id, supplierID, sealed, now.UnixMicro())
}

// AnySealed reports whether the embedded database has a sealed secret. One that was not migrated yet has none.
func AnySealed(ctx context.Context, db *database.DB) bool {
	var one int
	for _, from := range []string{`sqlite_master WHERE name = 'supplier_webhook_secrets'`,
		`supplier_webhook_secrets LIMIT 1`} {
		if found, err := database.One(ctx, db.SQL(ctx), `SELECT 1 FROM `+from, nil, &one); err != nil || !found {
			return false
		}
	}
	return true
}

// someSecrets reads secrets that sign now: some of all, as their ids are random.
func (s store) someSecrets(ctx context.Context, now time.Time, most int) ([]receiverRow, error) {
	return database.Query(ctx, s.db.SQL(ctx), `SELECT id, sealed FROM supplier_webhook_secrets
		WHERE active_until IS NULL OR active_until > $1 ORDER BY id LIMIT $2`, []any{now.UnixMicro(), most},
		func(r *receiverRow) []any { return []any{&r.SecretID, &r.Sealed} })
}

// expireSecrets lets the supplier's current webhook secret sign until the given time, and earlier ones until their own
// end; all lets none of them sign longer than that.
func (s store) expireSecrets(ctx context.Context, supplierID string, until time.Time, all bool) error {
	return s.exec(ctx, `UPDATE supplier_webhook_secrets SET active_until = $1
		WHERE supplier_id = $2 AND (active_until IS NULL OR active_until > $1 AND $3)`, until.UnixMicro(), supplierID, all)
}

// dropSecrets deletes a supplier's secrets that have ended, and of those that were rotated and still sign all but the
// newest so many. Those that stayed until the purge would be read by each rotation and each claim.
func (s store) dropSecrets(ctx context.Context, supplierID string, keep int, now time.Time) error {
	return s.exec(ctx, `DELETE FROM supplier_webhook_secrets
		WHERE supplier_id = $2 AND active_until IS NOT NULL AND id NOT IN (
			SELECT id FROM supplier_webhook_secrets WHERE supplier_id = $2 AND active_until > $1
			ORDER BY created_at DESC, active_until DESC, id LIMIT $3)`, now.UnixMicro(), supplierID, keep)
}

// receiverRow is a supplier with one of its secrets, or without any.
type receiverRow struct {
	SupplierID string
	WebhookURL string
	Active     bool
	// ReceiverConcurrency is the supplier's own limit.
	ReceiverConcurrency *int
	SecretID            *string
	Sealed              []byte
}

// receivers reads suppliers with the secrets that sign now, the newest first.
func (s store) receivers(ctx context.Context, ids []string, now time.Time) ([]receiverRow, error) {
	return database.Query(ctx, s.db.ReaderSQL(ctx), `
		SELECT s.id, s.webhook_url, s.active, s.receiver_concurrency, w.id, w.sealed
		FROM suppliers s LEFT JOIN supplier_webhook_secrets w
			ON w.supplier_id = s.id AND (w.active_until IS NULL OR w.active_until > $1)
		WHERE `+s.db.AnyOf("s.id", 2)+` ORDER BY s.id, (w.active_until IS NULL) DESC, w.created_at DESC, w.id`,
		[]any{now.UnixMicro(), s.db.Values(ids)}, func(r *receiverRow) []any {
			return []any{&r.SupplierID, &r.WebhookURL, &r.Active, &r.ReceiverConcurrency, &r.SecretID, &r.Sealed}
		})
}

// purgeRotated deletes API keys and webhook secrets that stopped working before the given time.
func (s store) purgeRotated(ctx context.Context, before time.Time) error {
	return s.execEach(ctx, before.UnixMicro(), `DELETE FROM supplier_api_keys WHERE active_until < $1`,
		`DELETE FROM supplier_webhook_secrets WHERE active_until < $1`)
}
