// Package products owns the suppliers' catalogues: suppliers synchronise their products here, and estimates read them.
package products

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"math"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// Syncs bring a supplier's products in any order, again and again. Which change is newer is decided by the
// supplier's own updated_at, or by when it arrived: an older one is stale and changes nothing. A product is never
// deleted; deactivated, it stays and can be synced again.

const (
	textLimit = 255
	sizeLimit = 1_000_000 // centimetres
)

// Product is what a supplier states of one of its articles; nil is unknown. Its JSON without Active is the canonical
// one: two products are the same when it is.
type Product struct {
	SKU               string   `gorm:"primaryKey" json:"sku"`
	MaterialID        int64    `json:"material_id"`
	Material          string   `json:"material"`
	MaterialVariantID *int64   `json:"material_variant_id"`
	MaterialVariant   *string  `json:"material_variant"`
	Width             *float64 `json:"width"` // centimetres
	Height            *float64 `json:"height"`
	Depth             *float64 `json:"depth"`
	WeightKg          *float64 `json:"weight_kg"`       // of one piece
	ProductionDays    *int64   `json:"production_days"` // business days before dispatch
	Active            bool     `json:"-"`
}

// digest returns the SHA-256 of the product's canonical JSON: equal means unchanged.
func (p Product) digest() []byte {
	text, _ := json.Marshal(p) // never fails: numbers that came as JSON are finite
	sum := sha256.Sum256(text)
	return sum[:]
}

// Status is what became of a synchronised product.
type Status string

// The outcomes of a synchronisation.
const (
	created     Status = "created"
	updated     Status = "updated"
	unchanged   Status = "unchanged"
	deactivated Status = "deactivated"
	stale       Status = "stale" // something newer is stored: nothing changed
)

// Service implements the catalogue of suppliers. It is safe for concurrent use.
type Service struct {
	store *store
	now   func() time.Time
}

// New returns the service over the database.
func New(db *database.DB, now func() time.Time) *Service {
	return &Service{store: &store{db}, now: now}
}

// Key names a product.
type Key struct{ SupplierID, SKU string }

// Facts is what an estimate needs of a product; nil is unknown.
type Facts struct {
	Active         bool
	WeightKg       *float64
	ProductionDays *int64
}

// keyed is the facts of one of several products.
type keyed struct {
	Key
	Facts
}

// Find returns the facts of the products with these keys, active or not; unknown ones are absent.
func (s *Service) Find(ctx context.Context, keys []Key) (map[Key]Facts, error) {
	found, err := s.store.find(ctx, keys)
	return lists.Pairs(found, func(k keyed) (Key, Facts) { return k.Key, k.Facts }), err
}

// change is one synchronisation. Without a time of its own it is as new as its arrival and never stale.
type change struct {
	deactivate bool
	product    Product // for a deactivation the SKU alone
	updatedAt  *time.Time
}

// apply stores a change. errs.NotFound: nothing to deactivate.
func (s *Service) apply(ctx context.Context, supplierID string, c change) (status Status, err error) {
	now := s.now()
	err = s.store.db.InTx(ctx, "synchronise a product", func(ctx context.Context) error {
		status, err = s.store.apply(ctx, supplierID, c, now)
		return err
	})
	return status, errs.Doing("synchronise product", err)
}

// decide returns what a change makes of the stored product, by the rule.
func decide(c change, digest []byte, stored productRow) Status {
	switch {
	case c.updatedAt != nil && c.updatedAt.UnixMicro() < stored.SourceUpdatedAt:
		return stale
	case c.deactivate && !stored.Active:
		return unchanged
	case c.deactivate:
		return deactivated
	case stored.Active && string(digest) == string(stored.Digest):
		return unchanged
	default:
		return updated
	}
}

// syncBody is a posted synchronisation; nil is missing or null.
type syncBody struct {
	Action    *string      `json:"action"`
	UpdatedAt *time.Time   `json:"updated_at"`
	Product   *productBody `json:"product"`
}

// productBody is a posted product; nil is missing or null. Its own members are those that a Product needs.
type productBody struct {
	SKU        *string `json:"sku"`
	MaterialID *int64  `json:"material_id"`
	Material   *string `json:"material"`
	Product
}

const (
	actionUpsert     = "upsert"
	actionDeactivate = "deactivate"
)

// validate names every rule that the body breaks. Without any, change may be called.
func (b *syncBody) validate() []errs.Violation {
	var c errs.Check
	action := errs.Member(&c, "/action", b.Action, errs.OneOf(actionUpsert, actionDeactivate),
		"must be upsert or deactivate")
	if b.UpdatedAt != nil && (b.UpdatedAt.UTC().Year() < 1 || b.UpdatedAt.UTC().Year() > 9999) {
		c.Add("/updated_at", "must be in the years 1 to 9999")
	}
	if b.Product == nil {
		c.Add("/product", errs.Required)
		return c.Found
	}
	b.Product.validate(&c, action == actionUpsert)
	return c.Found
}

// validate names every rule that the body breaks.
func (p *productBody) validate(c *errs.Check, upsert bool) {
	c.Text("/product/sku", p.SKU, textLimit)
	if upsert && p.MaterialID == nil {
		c.Add("/product/material_id", errs.Required)
	}
	if upsert || p.Material != nil {
		c.Text("/product/material", p.Material, textLimit)
	}
	c.Number("/product/width", p.Width, sizeLimit, sizeDetail)
	c.Number("/product/height", p.Height, sizeLimit, sizeDetail)
	c.Number("/product/depth", p.Depth, sizeLimit, sizeDetail)
	c.Number("/product/weight_kg", p.WeightKg, math.MaxFloat64, "must be a number of at least 0")
	if p.ProductionDays != nil && (*p.ProductionDays < 0 || *p.ProductionDays > math.MaxInt32) {
		c.Add("/product/production_days", fmt.Sprintf("must be an integer from 0 to %d", math.MaxInt32))
	}
}

const sizeDetail = "must be a number from 0 to 1000000"

// change returns the body without its nil pointers; validate must have found nothing.
func (b *syncBody) change() change {
	p := b.Product
	c := change{deactivate: *b.Action == actionDeactivate, updatedAt: b.UpdatedAt}
	if !c.deactivate {
		c.product = p.Product
		c.product.MaterialID, c.product.Material = *p.MaterialID, *p.Material
		for _, v := range []*float64{p.Width, p.Height, p.Depth, p.WeightKg} {
			if v != nil {
				*v += 0 // -0 becomes the 0 that it equals, so that equal products have one text
			}
		}
	}
	c.product.SKU, c.product.Active = *p.SKU, true
	return c
}
