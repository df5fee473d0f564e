package app

import (
	"context"
	"encoding/json"

	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// mostWaiting is up to where a command counts what waits for a receiver.
const mostWaiting = 100_000

// SupplierStatus is a supplier with how its receiver does. State is none when it has none.
type SupplierStatus struct {
	Supplier supplierauth.Supplier
	Receiver receivers.Condition
}

// MarshalJSON returns the supplier's members, then those of its receiver that say whether it needs attention.
func (s SupplierStatus) MarshalJSON() ([]byte, error) {
	supplier, err := json.Marshal(s.Supplier)
	if err != nil {
		return nil, err
	}
	receiver, err := json.Marshal(struct {
		State    string `json:"state"`
		Failures int    `json:"consecutive_failures"`
		Waiting  int64  `json:"waiting"`
	}{s.Receiver.State, s.Receiver.Failures, s.Receiver.Waiting})
	return append(append(supplier[:len(supplier)-1], ','), receiver[1:]...), err
}

// ReceiverStatus is a supplier's receiver and how it does.
type ReceiverStatus struct {
	SupplierID string `json:"supplier_id"`
	Supplier   string `json:"supplier_name"`
	URL        string `json:"url"`
	receivers.Condition
}

// SupplierStatuses returns all suppliers, oldest first; never nil.
func (a *App) SupplierStatuses(ctx context.Context) ([]SupplierStatus, error) {
	suppliers, err := a.Suppliers.ListSuppliers(ctx)
	if err != nil {
		return nil, err
	}
	ids := lists.Of(suppliers, func(s supplierauth.Supplier) string { return s.ID })
	conditions, err := a.Deliveries.Conditions(ctx, ids, mostWaiting)
	if err != nil {
		return nil, err
	}
	list := make([]SupplierStatus, len(suppliers))
	for i, s := range suppliers {
		list[i] = SupplierStatus{s, *conditions[s.ID]}
		if s.WebhookURL == "" {
			list[i].Receiver.State = "none"
		}
	}
	return list, nil
}

// ReceiverStatuses returns all receivers, those that need attention first; never nil.
func (a *App) ReceiverStatuses(ctx context.Context) ([]ReceiverStatus, error) {
	suppliers, err := a.SupplierStatuses(ctx)
	list := []ReceiverStatus{}
	for _, state := range []string{"failing", "paused", "active"} {
		for _, s := range suppliers {
			if s.Receiver.State == state {
				list = append(list, ReceiverStatus{s.Supplier.ID, s.Supplier.Name, s.Supplier.ShownURL(), s.Receiver})
			}
		}
	}
	return list, err
}
