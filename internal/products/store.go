package products

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm/clause"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// Each product is inserted or decided on under its row's lock. Two syncs of one product at once have one outcome,
// that of the newer change.

// store is the table of products, of all suppliers.
type store struct{ db *database.DB }

// productRow is a product as it is stored. Times are Unix microseconds.
type productRow struct {
	SupplierID string `gorm:"primaryKey"`
	Product
	Digest          []byte
	SourceUpdatedAt int64
	CreatedAt       int64 `gorm:"autoCreateTime:false"`
	UpdatedAt       int64 `gorm:"autoUpdateTime:false"`
}

// TableName returns gorm's name for the rows.
func (productRow) TableName() string { return "products" }

// find returns the facts of those of the products that are stored, however many are asked for. It reads no texts, whose
// size has no limit but a body's.
func (s *store) find(ctx context.Context, keys []Key) (found []keyed, err error) {
	err = database.BySupplier(s.db, keys, func(k Key) string { return k.SupplierID }, func(keys []Key) error {
		table, args := s.wanted(keys)
		some, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT p.supplier_id, p.sku, p.active, p.weight_kg,
				p.production_days FROM `+table, args, func(k *keyed) []any {
			return []any{&k.SupplierID, &k.SKU, &k.Active, &k.WeightKg, &k.ProductionDays}
		})
		found = append(found, some...)
		return err
	})
	return found, errs.Doing("read products", err)
}

// wanted returns a table p of the products with these keys, and its parameters. Each is looked up by its key, whatever
// the planner believes of the table.
func (s *store) wanted(keys []Key) (table string, args []any) {
	if s.db.Engine() == database.SQLite {
		return `json_each($1) AS k CROSS JOIN products AS p
			WHERE p.supplier_id = k.value->>'SupplierID' AND p.sku = k.value->>'SKU'`, []any{s.db.Values(keys)}
	}
	suppliers, skus := make([]string, len(keys)), make([]string, len(keys))
	for i, k := range keys {
		suppliers[i], skus[i] = k.SupplierID, k.SKU
	}
	return `unnest($1::text[], $2::text[]) AS k(supplier_id, sku) CROSS JOIN LATERAL (SELECT * FROM products m
		WHERE m.supplier_id = k.supplier_id AND m.sku = k.sku` + s.db.Of(suppliers, `m.supplier_id`, `$1`) + ` OFFSET 0) p`,
		[]any{suppliers, skus}
}

// apply inserts the product or decides, holding its row, what the change makes of the stored one. It must run in a
// transaction.
func (s *store) apply(ctx context.Context, supplierID string, c change, now time.Time) (Status, error) {
	digest, at := c.product.digest(), now.UnixMicro()
	row := productRow{SupplierID: supplierID, Product: c.product, Digest: digest, SourceUpdatedAt: at, CreatedAt: at,
		UpdatedAt: at}
	if c.updatedAt != nil {
		row.SourceUpdatedAt = c.updatedAt.UnixMicro()
	}
	if !c.deactivate {
		inserted := s.db.From(ctx).Clauses(clause.OnConflict{DoNothing: true}).Create(&row)
		if inserted.Error != nil {
			return "", fmt.Errorf("insert product: %w", inserted.Error)
		}
		if inserted.RowsAffected == 1 {
			return created, nil
		}
	}
	stored, err := s.lock(ctx, supplierID, row.SKU)
	if err != nil {
		return "", err
	}
	status := decide(c, digest, stored)
	return status, s.write(ctx, status, row, stored)
}

// lock reads the product and holds it until the transaction ends. Errors: errs.NotFound.
func (s *store) lock(ctx context.Context, supplierID, sku string) (productRow, error) {
	query := s.db.From(ctx).Where("supplier_id = ? AND sku = ?", supplierID, sku)
	if s.db.Engine() == database.Postgres {
		query = query.Clauses(clause.Locking{Strength: clause.LockingStrengthUpdate})
	}
	var rows []productRow
	if err := query.Find(&rows).Error; err != nil {
		return productRow{}, fmt.Errorf("read product: %w", err)
	}
	if len(rows) == 0 {
		return productRow{}, errs.New(errs.NotFound, "You have no product with this sku.")
	}
	return rows[0], nil
}

// write stores what was decided. It keeps the newest updated_at, also when nothing else changed.
func (s *store) write(ctx context.Context, status Status, row, stored productRow) error {
	at, newest := row.UpdatedAt, max(row.SourceUpdatedAt, stored.SourceUpdatedAt)
	switch status {
	case stale:
		return nil
	case updated:
		row.CreatedAt = stored.CreatedAt
	case deactivated:
		row = stored
		row.Active, row.UpdatedAt = false, at
	default:
		row = stored
	}
	row.SourceUpdatedAt = newest
	return errs.Doing("update product", s.db.From(ctx).Save(&row).Error)
}
