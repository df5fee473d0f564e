// Package estimates computes delivery estimates from a rate card, the products' facts and Brazil's
// business calendar. The computation is pure; the card is kept in the database.
package estimates

import (
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// An estimator's questions and answers. The rate card is one; a carrier's API could be another: it may fail, be slow,
// and be asked for the same round twice.

// ProductKey names a product of a supplier.
type ProductKey struct{ SupplierID, SKU string }

// Product is what the catalogue knows of an item.
type Product struct {
	Active         bool
	WeightKg       float64 // of one piece; 0 when unknown
	ProductionDays int     // business days before dispatch
}

// Item is one line of a request. Sizes are centimetres of one piece.
type Item struct {
	SKU                  string
	Width, Height, Depth float64
	Quantity             int64
	Product              *Product // nil: not in the catalogue
}

// Request is what there is to estimate.
type Request struct {
	SupplierID string
	RequestID  int64
	UID        int64 // of the accepted request, never used again: it enters the estimates' ids
	Round      int64 // which estimation of the request this is: it too enters the estimates' ids
	Items      []Item
	At         time.Time // the moment of the estimation; its São Paulo day and hour count
}

// Result is every service of the card: either it has an estimate or it is unavailable with a reason.
type Result struct {
	Estimates   []webhook.Estimate
	Unavailable []webhook.Unavailable
}
