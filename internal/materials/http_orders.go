package materials

import (
	"fmt"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// order is a request with a selected estimate, of any supplier.
type order struct {
	SupplierID string `json:"supplier_id"`
	Record
	SelectedEstimate *webhook.Estimate `json:"selected_estimate"`
	SelectedAt       *time.Time        `json:"selected_at"`
}

// Orders handles GET /orders: the orders of all suppliers, latest selection first.
func (s Handlers) Orders(c *gin.Context) error {
	query, err := httpapi.Query(c)
	if err != nil {
		return err
	}
	page, violations := httpapi.ParsePage(query)
	if len(violations) > 0 {
		return errs.InvalidInput("The parameters are not valid.", violations...)
	}
	ctx := c.Request.Context()
	l, err := s.store.orders(ctx, page.Size, page.Offset())
	if err != nil {
		return fmt.Errorf("list orders: %w", err)
	}
	return httpapi.List(c, page, l.total, func(yield func([]order, error) bool) {
		for records, err := range l.records(ctx) {
			if !yield(ordersOf(records), err) {
				return
			}
		}
	})
}

func ordersOf(records []Record) []order {
	orders := make([]order, len(records))
	for i, r := range records {
		orders[i] = order{SupplierID: r.SupplierID, Record: r, SelectedAt: r.SelectedAt}
		if r.SelectedEstimateID != nil {
			orders[i].SelectedEstimate = r.estimate(*r.SelectedEstimateID)
		}
	}
	return orders
}
