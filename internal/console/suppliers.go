package console

import (
	"context"

	"golang.org/x/sync/errgroup"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

const newest = 10 // requests and deliveries that a supplier's page shows

type suppliersView = listView[supplierauth.Supplier]

func (s *views) suppliers(ctx context.Context, q query) (any, error) {
	page, next, err := s.deps.Suppliers.SupplierPage(ctx, q.values.Get("cursor"), rows)
	return suppliersView{page, orNil(next)}, err
}

// supplierView is all about one supplier on one page: every name links to it.
type supplierView struct {
	Supplier   supplierauth.Supplier `json:"supplier"`
	Receiver   *receiver             `json:"receiver"` // nil: it has none
	Access     supplierauth.Access   `json:"access"`
	Requests   []requestRow          `json:"requests"`   // the newest
	Deliveries []deliveryRow         `json:"deliveries"` // the newest to its receiver
}

func (s *views) supplier(ctx context.Context, q query) (any, error) {
	id := q.params.ByName("id")
	found, err := s.deps.Suppliers.SuppliersOf(ctx, []string{id})
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errs.New(errs.NotFound, "There is no such supplier.")
	}
	view := supplierView{Supplier: found[0]}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		view.Receiver, err = s.receiverOf(ctx, id)
		return err
	})
	group.Go(func() (err error) {
		view.Access, err = s.deps.Suppliers.AccessOf(ctx, id)
		return err
	})
	group.Go(func() error {
		page, _, err := s.deps.Requests.Overviews(ctx, materials.Filter{SupplierID: id}, materials.Newest, newest)
		if err == nil {
			view.Requests, err = s.named(ctx, page)
		}
		return err
	})
	group.Go(func() error {
		page, _, err := s.deps.Deliveries.List(ctx, deliveries.Filter{Receiver: id}, deliveries.Key{}, newest)
		if err == nil {
			view.Deliveries, err = s.namedDeliveries(ctx, page)
		}
		return err
	})
	return view, group.Wait()
}
