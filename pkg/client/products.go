package client

import (
	"context"
	"net/http"
	"time"
)

// Product is an article of the supplier's catalogue. SKU is its key; MaterialID and Material are needed to store it.
type Product struct {
	SKU               string   `json:"sku"`
	MaterialID        *int64   `json:"material_id,omitempty"`
	Material          string   `json:"material,omitempty"`
	MaterialVariantID *int64   `json:"material_variant_id,omitempty"`
	MaterialVariant   *string  `json:"material_variant,omitempty"`
	Width             *float64 `json:"width,omitempty"` // centimetres, as Height and Depth
	Height            *float64 `json:"height,omitempty"`
	Depth             *float64 `json:"depth,omitempty"`
	WeightKg          *float64 `json:"weight_kg,omitempty"`
	ProductionDays    *int64   `json:"production_days,omitempty"`
}

// ProductStatus says what became of a product.
type ProductStatus string

// The outcomes of a synchronisation.
const (
	ProductCreated     ProductStatus = "created"
	ProductUpdated     ProductStatus = "updated"
	ProductUnchanged   ProductStatus = "unchanged"   // the same was stored
	ProductDeactivated ProductStatus = "deactivated" // requests for it get no estimates any more
	ProductStale       ProductStatus = "stale"       // the stored one is newer; nothing changed
)

// UpsertProduct stores the product, or changes it when its SKU is known. updatedAt is when it changed at the supplier,
// so that an older change that arrives late is stale; the zero time leaves that out.
func (c *Client) UpsertProduct(ctx context.Context, p Product, updatedAt time.Time) (ProductStatus, error) {
	return c.syncProduct(ctx, "upsert", p, updatedAt)
}

// DeactivateProduct makes requests for the SKU get no estimates until it is stored again. An unknown SKU is
// ErrNotFound.
func (c *Client) DeactivateProduct(ctx context.Context, sku string, updatedAt time.Time) (ProductStatus, error) {
	return c.syncProduct(ctx, "deactivate", Product{SKU: sku}, updatedAt)
}

func (c *Client) syncProduct(ctx context.Context, action string, p Product, updatedAt time.Time) (
	ProductStatus, error) {
	body := struct {
		Action    string    `json:"action"`
		UpdatedAt time.Time `json:"updated_at,omitzero"`
		Product   Product   `json:"product"`
	}{action, updatedAt, p}
	answer, err := fetch[struct {
		Status ProductStatus `json:"status"`
	}](ctx, c, call{method: http.MethodPost, path: "/api/products/sync", body: body, safe: true,
		members: "status"})
	return answer.Status, err
}
