package console

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

const (
	mostPages   = 10     // of suppliers that one page of receivers looks through
	listed      = "s~"   // begins the place of a page that goes through the suppliers
	mostWaiting = 10_000 // deliveries that are counted for each receiver
)

// receiver is a supplier's receiver and how it does.
type receiver struct {
	SupplierID string `json:"supplier_id"`
	Supplier   string `json:"supplier_name"`
	URL        string `json:"url"`
	receivers.Condition
}

// More reports whether more waits than is counted.
func (r receiver) More() bool { return r.Waiting >= mostWaiting }

type receiversView = listView[receiver]

// receivers returns those that need attention first.
func (s *views) receivers(ctx context.Context, q query) (any, error) {
	state, supplier, after := q.values.Get("state"), q.values.Get("supplier_id"), q.values.Get("cursor")
	if !slices.Contains([]string{"", "failing", "paused", "active"}, state) {
		return nil, errs.New(errs.Invalid, "Receivers are listed by the state failing, paused or active, or without a state.")
	}
	if supplier != "" {
		one, err := s.receiverOf(ctx, supplier)
		if err != nil || one == nil || state != "" && state != one.State {
			return receiversView{Items: []receiver{}}, err
		}
		return receiversView{Items: []receiver{*one}}, nil
	}
	states, err := s.deps.Receivers.IllStates(ctx)
	if err != nil {
		return nil, err
	}
	view := receiversView{Items: []receiver{}}
	place, through := strings.CutPrefix(after, listed)
	if !through && state != "active" {
		var next string
		view.Items, next = pageOf(illReceivers(states, state), after)
		view.Next = orNil(next)
		if err := s.describe(ctx, view.Items); err != nil {
			return nil, err
		}
	}
	if state != "" && state != "active" || view.Next != nil {
		return view, nil
	}
	healthy, next, err := s.healthy(ctx, place, state, states)
	if next != "" {
		next = listed + next
	}
	return receiversView{append(view.Items, healthy...), orNil(next)}, err
}

// receiverOf returns a supplier's receiver; nil: it has none, and never had one that was called.
func (s *views) receiverOf(ctx context.Context, supplier string) (*receiver, error) {
	states, err := s.deps.Receivers.ReceiverStates(ctx, []string{supplier})
	if err != nil {
		return nil, err
	}
	known, found := states[supplier]
	one := []receiver{receiverIn(supplier, known)}
	if err := s.describe(ctx, one); err != nil || !found && one[0].URL == "" {
		return nil, err
	}
	return &one[0], nil
}

// illReceivers returns those that fail, then those that are paused, or one of the two.
func illReceivers(states map[string]receivers.ReceiverState, state string) []receiver {
	var ill []receiver
	for id, is := range states {
		if r := receiverIn(id, is); state == "" || state == r.State {
			ill = append(ill, r)
		}
	}
	slices.SortFunc(ill, func(a, b receiver) int { return cmp.Compare(a.place(), b.place()) })
	return ill
}

// place returns the receiver's place in the list, whatever becomes of those before it.
func (r receiver) place() string { return r.State + "~" + r.SupplierID }

func receiverIn(supplierID string, state receivers.ReceiverState) receiver {
	return receiver{SupplierID: supplierID, Condition: state.Condition()}
}

// describe adds what the suppliers say of their receivers, and what waits for them.
func (s *views) describe(ctx context.Context, list []receiver) error {
	ids := lists.Of(list, func(r receiver) string { return r.SupplierID })
	suppliers, err := s.deps.Suppliers.SuppliersOf(ctx, ids)
	for _, supplier := range suppliers {
		i := slices.Index(ids, supplier.ID)
		list[i].Supplier, list[i].URL = supplier.Name, supplier.ShownURL()
	}
	if err != nil {
		return err
	}
	conditions := make(map[string]*receivers.Condition, len(list))
	for i := range list {
		conditions[list[i].SupplierID] = &list[i].Condition
	}
	return s.deps.Receivers.Count(ctx, conditions, mostWaiting)
}

// healthy goes through the suppliers for receivers that need no attention: those that are well and, without a state,
// those that fail or are paused and are not called, as their suppliers are deactivated or have no address.
func (s *views) healthy(ctx context.Context, after, state string, ill map[string]receivers.ReceiverState) (
	page []receiver, next string, err error) {
	for range mostPages {
		suppliers, next, err := s.deps.Suppliers.SupplierPage(ctx, after, rows)
		if err != nil {
			return nil, "", err
		}
		ids := lists.Of(suppliers, func(s supplierauth.Supplier) string { return s.ID })
		states, err := s.deps.Receivers.ReceiverStates(ctx, ids)
		if err != nil {
			return nil, "", err
		}
		for _, supplier := range suppliers {
			is, known := states[supplier.ID]
			one := receiverIn(supplier.ID, is)
			if _, found := ill[supplier.ID]; !found && (known || supplier.WebhookURL != "") &&
				(state == "" || state == one.State) {
				page = append(page, one)
			}
		}
		if after = next; next == "" || len(page) > 0 {
			break
		}
	}
	return page, after, s.describe(ctx, page)
}

// pageOf cuts the page behind a place out of the list.
func pageOf(all []receiver, after string) (page []receiver, next string) {
	all = slices.DeleteFunc(all, func(r receiver) bool { return r.place() <= after })
	page = append([]receiver{}, all[:min(rows, len(all))]...)
	if len(page) < len(all) {
		next = page[len(page)-1].place()
	}
	return page, next
}
