package app

import (
	"context"

	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/deliveries"
)

// RequestDetail is a material request as an operator sees it.
type RequestDetail struct {
	SupplierID string `json:"supplier_id"`
	materials.Record
	Rounds     []materials.RoundOverview `json:"rounds"`
	Deliveries []deliveries.Delivery       `json:"deliveries"`
}

// EachRequest hands the newest requests to fn, of one supplier or status when these are given; limit 0: all of them.
func (a *App) EachRequest(ctx context.Context, supplierID, status string, limit int,
	fn func(materials.Overview) error) error {
	return a.requests.Each(ctx, materials.Filter{SupplierID: supplierID, Status: materials.Status(status)}, limit, fn)
}

// EachDelivery hands the deliveries that the filter chooses to fn, of the requests with an id when one is given, the
// newest first; limit 0: all of them. errs.NotFound: there is no request of that id.
func (a *App) EachDelivery(ctx context.Context, filter deliveries.Filter, requestID *int64, limit int,
	fn func(deliveries.Delivery) error) error {
	if requestID != nil {
		requests, err := a.requests.Rounds(ctx, filter.SupplierID, *requestID)
		if err != nil {
			return err
		}
		for _, r := range requests {
			filter.Requests = append(filter.Requests, r.UID)
		}
	}
	return a.Deliveries.Each(ctx, filter, limit, fn)
}

// ShowRequest returns a request with its rounds and deliveries. errs.NotFound: the supplier has none of that id.
func (a *App) ShowRequest(ctx context.Context, supplierID string, requestID int64) (d RequestDetail, err error) {
	record, rounds, current, err := a.requests.Show(ctx, supplierID, requestID)
	if err != nil {
		return d, err
	}
	d = RequestDetail{SupplierID: supplierID, Record: record, Rounds: rounds}
	d.Deliveries, err = a.Deliveries.Of(ctx, current)
	return d, err
}

// ReopenRequest enqueues a failed request again, in a new round. Errors: errs.NotFound, errs.Conflict when it is not
// failed.
func (a *App) ReopenRequest(ctx context.Context, supplierID string, requestID int64) error {
	return a.requests.Reopen(ctx, supplierID, requestID)
}
