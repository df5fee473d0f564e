package console

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/receivers"
)

const (
	mostPages = 10   // of suppliers that one page of receivers looks through
	listed    = "s~" // begins the place of a page that goes through the suppliers
)

// receiver is a supplier's receiver and how it does.
type receiver struct {
	SupplierID   string     `json:"supplier_id"`
	Supplier     string     `json:"supplier_name"`
	URL          string     `json:"url"`
	State        string     `json:"state"` // failing, paused, active
	PausedBy     string     `json:"paused_by"`
	Failures     int        `json:"consecutive_failures"`
	FailingSince *time.Time `json:"failing_since"`
	LastSuccess  *time.Time `json:"last_success_at"`
	LastFailure  *time.Time `json:"last_failure_at"`
	LastError    string     `json:"last_error"`
}

type receiversView struct {
	Items []receiver `json:"items"`
	Next  *string    `json:"next_cursor"`
}

// receivers returns those that need attention first.
func (s *Service) receivers(ctx context.Context, q query) (any, error) {
	state, supplier, after := q.values.Get("state"), q.values.Get("supplier_id"), q.values.Get("cursor")
	if !slices.Contains([]string{"", "failing", "paused", "active"}, state) {
		return nil, errs.New(errs.Invalid, "Receivers are listed by the state failing, paused or active, or without a state.")
	}
	if supplier != "" {
		return s.receiverOf(ctx, supplier, state)
	}
	states, err := s.deps.Deliveries.IllStates(ctx)
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
	healthy, next, err := s.healthy(ctx, place, states)
	if next != "" {
		next = listed + next
	}
	return receiversView{append(view.Items, healthy...), orNil(next)}, err
}

func (s *Service) receiverOf(ctx context.Context, supplier, state string) (any, error) {
	states, err := s.deps.Deliveries.ReceiverStates(ctx, []string{supplier})
	if err != nil {
		return nil, err
	}
	known, found := states[supplier]
	one := []receiver{receiverIn(supplier, known)}
	err = s.describe(ctx, one)
	if state != "" && state != one[0].State || !found && one[0].URL == "" {
		one = []receiver{}
	}
	return receiversView{Items: one}, err
}

// illReceivers returns those that fail, then those that are paused, or one of the two.
func illReceivers(states map[string]receivers.ReceiverState, state string) []receiver {
	var ill []receiver
	for _, id := range slices.Sorted(maps.Keys(states)) {
		if r := receiverIn(id, states[id]); state == "" || state == r.State {
			ill = append(ill, r)
		}
	}
	slices.SortStableFunc(ill, func(a, b receiver) int { return cmp.Compare(a.State, b.State) })
	return ill
}

func receiverIn(supplierID string, state receivers.ReceiverState) receiver {
	r := receiver{
		SupplierID: supplierID, State: "active", PausedBy: state.PausedBy, Failures: state.Failures,
		FailingSince: state.FailingSince, LastSuccess: state.LastSuccess, LastFailure: state.LastFailure,
		LastError: state.LastError,
	}
	switch {
	case state.PausedBy != "":
		r.State = "paused"
	case state.Failing():
		r.State = "failing"
	}
	return r
}

// describe adds what the suppliers say of their receivers.
func (s *Service) describe(ctx context.Context, list []receiver) error {
	ids := make([]string, len(list))
	for i, r := range list {
		ids[i] = r.SupplierID
	}
	suppliers, err := s.deps.Suppliers.SuppliersOf(ctx, ids)
	for _, supplier := range suppliers {
		i := slices.Index(ids, supplier.ID)
		list[i].Supplier, list[i].URL = supplier.Name, supplier.WebhookURL
	}
	return err
}

// healthy goes through the suppliers for receivers that need no attention.
func (s *Service) healthy(ctx context.Context, after string, ill map[string]receivers.ReceiverState) (
	page []receiver, next string, err error) {
	for range mostPages {
		suppliers, next, err := s.deps.Suppliers.SupplierPage(ctx, after, rows)
		if err != nil {
			return nil, "", err
		}
		ids := make([]string, len(suppliers))
		for i, supplier := range suppliers {
			ids[i] = supplier.ID
		}
		states, err := s.deps.Deliveries.ReceiverStates(ctx, ids)
		if err != nil {
			return nil, "", err
		}
		for _, supplier := range suppliers {
			state, known := states[supplier.ID]
			if _, found := ill[supplier.ID]; !found && (known || supplier.WebhookURL != "") {
				r := receiverIn(supplier.ID, state)
				r.Supplier, r.URL = supplier.Name, supplier.WebhookURL
				page = append(page, r)
			}
		}
		if after = next; next == "" || len(page) > 0 {
			break
		}
	}
	return page, after, nil
}

// pageOf cuts a page out of a list that is in memory.
func pageOf[T any](all []T, after string) (page []T, next string) {
	from, err := strconv.Atoi(after)
	if err != nil || from < 0 || from > len(all) {
		from = 0
	}
	to := min(from+rows, len(all))
	if to < len(all) {
		next = strconv.Itoa(to)
	}
	return append([]T{}, all[from:to]...), next
}
