package products

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm/clause"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
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

// find returns a supplier's products by SKU, however many; unknown ones are absent.
func (s *store) find(ctx context.Context, supplierID string, skus []string) (map[string]Product, error) {
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT sku, active, material_id, material,
			material_variant_id, material_variant, width, height, depth, weight_kg, production_days
		FROM products WHERE supplier_id = $1 AND `+s.db.AnyOf("sku", 2), []any{supplierID, s.db.Values(skus)},
		func(p *Product) []any {
			return []any{&p.SKU, &p.Active, &p.MaterialID, &p.Material, &p.MaterialVariantID, &p.MaterialVariant,
				&p.Width, &p.Height, &p.Depth, &p.WeightKg, &p.ProductionDays}
		})
	return lists.By(rows, func(p Product) string { return p.SKU }), errs.Doing("read products", err)
}

// apply inserts the product or decides, holding its row, what the change makes of the stored one. It must run in a
// transaction.
func (s *store) apply(ctx context.Context, supplierID string, c change, now time.Time) (Status, error) {
	digest, err := c.product.digest()
	if err != nil {
		return "", err
	}
	at := now.UnixMicro()
	row := productRow{SupplierID: supplierID, Product: c.product, Digest: digest, SourceUpdatedAt: at, CreatedAt: at,
		UpdatedAt: at}
	row.Active = true
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
