package console

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/tracker"
	"github.com/supplyhub/supplyhub/internal/webhooks"
)

const (
	rows         = 50
	mostSteps    = 20 // deliveries whose attempts one page shows
	chunkOfFinds = 500
)

type requestRow struct {
	materials.Overview
	Supplier string `json:"supplier_name"`
}

type requestsView struct {
	Items []requestRow `json:"items"`
	Next  string       `json:"next"` // for the parameter after; empty: that was all
}

func (s *Service) requests(ctx context.Context, q query) (any, error) {
	status := q.values.Get("status")
	if status != "" && status != string(materials.Failed) {
		return nil, errs.New(errs.Invalid, "The address has a filter that cannot be read.")
	}
	names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	page, next, err := s.deps.Requests.Recent(ctx,
		materials.Filter{Status: materials.Status(status), SupplierID: q.values.Get("supplier_id")}, q.values.Get("after"),
		rows)
	if err != nil {
		return nil, err
	}
	return requestsView{named(page, names), next}, nil
}

func named(page []materials.Overview, names map[string]string) []requestRow {
	items := make([]requestRow, len(page))
	for i, o := range page {
		items[i] = requestRow{o, names[o.SupplierID]}
	}
	return items
}

type requestView struct {
	SupplierID string `json:"supplier_id"`
	Supplier   string `json:"supplier_name"`
	TraceID    string `json:"x_request_id"`
	materials.Record
	Rounds     []materials.RoundOverview `json:"rounds"`
	Deliveries []*webhooks.Detail        `json:"deliveries"` // with their attempts, newest first
}

// request is one request's whole story.
func (s *Service) request(ctx context.Context, q query) (any, error) {
	supplier := q.params.ByName("supplier")
	id, err := strconv.ParseInt(q.params.ByName("id"), 10, 64)
	if err != nil {
		return nil, errs.New(errs.NotFound, "There is no such material request.")
	}
	record, rounds, current, err := s.deps.Requests.Show(ctx, supplier, id)
	if err != nil {
		return nil, err
	}
	names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	view := requestView{SupplierID: supplier, Supplier: names[supplier], TraceID: record.TraceID, Record: record,
		Rounds: rounds}
	found, err := s.deps.Deliveries.List(ctx, webhooks.Filter{Latest: &current})
	if err != nil {
		return nil, err
	}
	for _, d := range found[:min(len(found), mostSteps)] {
		detail, err := s.deps.Deliveries.Show(ctx, d.ID)
		if err != nil {
			return nil, err
		}
		view.Deliveries = append(view.Deliveries, detail)
	}
	return view, nil
}

type deliveryRow struct {
	webhooks.Delivery
	Supplier string `json:"supplier_name"`
}

type deliveriesView struct {
	Items []deliveryRow `json:"items"`
	Next  string        `json:"next"`
}

func (s *Service) deliveries(ctx context.Context, q query) (any, error) {
	status := webhooks.Status(q.values.Get("status"))
	if !slices.Contains([]webhooks.Status{"", webhooks.Pending, webhooks.Delivered, webhooks.Dead, webhooks.Failed},
		status) {
		return nil, errs.New(errs.Invalid, "The address has a filter that cannot be read.")
	}
	names, err := s.names(ctx)
	if err != nil {
		return nil, err
	}
	page, next, err := s.deps.Deliveries.Recent(ctx,
		webhooks.Filter{Status: status, SupplierID: q.values.Get("supplier_id")}, q.values.Get("after"), rows)
	if err != nil {
		return nil, err
	}
	view := deliveriesView{Items: make([]deliveryRow, len(page)), Next: next}
	for i, d := range page {
		view.Items[i] = deliveryRow{d, names[d.SupplierID]}
	}
	return view, nil
}

type deliveryView struct {
	*webhooks.Detail
	Supplier string `json:"supplier_name"`
}

func (s *Service) delivery(ctx context.Context, q query) (any, error) {
	detail, err := s.deps.Deliveries.Show(ctx, q.params.ByName("id"))
	if err != nil {
		return nil, err
	}
	names, err := s.names(ctx)
	return deliveryView{detail, names[detail.SupplierID]}, err
}

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
	Next  string     `json:"next"`
}

// receivers returns those that need attention first.
func (s *Service) receivers(ctx context.Context, q query) (any, error) {
	all, err := s.allReceivers(ctx)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(r receiver) bool {
		state, supplier := q.values.Get("state"), q.values.Get("supplier_id")
		return state != "" && state != r.State || supplier != "" && supplier != r.SupplierID
	})
	page, next := pageOf(all, q.values.Get("after"))
	return receiversView{page, next}, nil
}

func (s *Service) allReceivers(ctx context.Context) ([]receiver, error) {
	suppliers, err := s.deps.Suppliers.ListSuppliers(ctx)
	if err != nil {
		return nil, err
	}
	states, err := s.deps.Deliveries.ReceiverStates(ctx)
	if err != nil {
		return nil, err
	}
	var all []receiver
	for _, supplier := range suppliers {
		state, known := states[supplier.ID]
		if supplier.WebhookURL == "" && !known {
			continue
		}
		r := receiver{
			SupplierID: supplier.ID, Supplier: supplier.Name, URL: supplier.WebhookURL, State: "active", PausedBy: state.PausedBy,
			Failures: state.Failures, FailingSince: state.FailingSince, LastSuccess: state.LastSuccess, LastFailure: state.LastFailure, LastError: state.LastError,
		}
		switch {
		case state.PausedBy != "":
			r.State = "paused"
		case state.Failing():
			r.State = "failing"
		}
		all = append(all, r)
	}
	order := map[string]int{"failing": 0, "paused": 1, "active": 2}
	slices.SortStableFunc(all, func(a, b receiver) int { return cmp.Compare(order[a.State], order[b.State]) })
	return all, nil
}

type suppliersView struct {
	Items []supplierauth.Supplier `json:"items"`
	Next  string                  `json:"next"`
}

func (s *Service) suppliers(ctx context.Context, q query) (any, error) {
	all, err := s.deps.Suppliers.ListSuppliers(ctx)
	if err != nil {
		return nil, err
	}
	page, next := pageOf(all, q.values.Get("after"))
	return suppliersView{page, next}, nil
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

// names are the suppliers' names by id.
func (s *Service) names(ctx context.Context) (map[string]string, error) {
	names, err := s.cache.read(ctx, "names", func(ctx context.Context) (any, error) {
		all, err := s.deps.Suppliers.ListSuppliers(ctx)
		names := make(map[string]string, len(all))
		for _, supplier := range all {
			names[supplier.ID] = supplier.Name
		}
		return names, err
	})
	if err != nil {
		return nil, err
	}
	return names.(map[string]string), nil
}

type scoreboardView struct {
	Remaining map[string]int64            `json:"remaining"` // of today, by requester
	Providers map[string]map[string]int64 `json:"providers"` // what this process asked since its start, by outcome
}

func (s *Service) scoreboard(ctx context.Context, _ query) (any, error) {
	left, err := s.deps.Scores.Remaining(ctx)
	asked, askedErr := s.deps.Scores.Providers()
	return scoreboardView{left, asked}, errors.Join(err, askedErr)
}

type trackersView struct {
	Items  []tracker.Client  `json:"items"`
	Faults map[string]string `json:"faults"` // of views that cannot be listed
}

func (s *Service) trackers(ctx context.Context, _ query) (any, error) {
	clients, err := s.deps.Trackers.ListClients(ctx)
	if err != nil {
		return nil, err
	}
	view := trackersView{append([]tracker.Client{}, clients...), map[string]string{}}
	for name, fault := range s.deps.Trackers.Faults() {
		view.Faults[name] = fault.Error()
	}
	return view, nil
}

// searchResult is what a text was found as.
type searchResult struct {
	Text       string                  `json:"text"`
	Requests   []requestRow            `json:"requests"`
	Deliveries []deliveryRow           `json:"deliveries"`
	Suppliers  []supplierauth.Supplier `json:"suppliers"`
	Only       string                  `json:"-"` // the path of the only thing found
}

// search finds by request id, delivery id, supplier name or id, and X-Request-Id among the newest requests.
func (s *Service) search(ctx context.Context, q query) (any, error) {
	text := strings.TrimSpace(q.values.Get("q"))
	r := searchResult{Text: text, Requests: []requestRow{}, Deliveries: []deliveryRow{},
		Suppliers: []supplierauth.Supplier{}}
	if text == "" {
		return r, nil
	}
	suppliers, err := s.deps.Suppliers.ListSuppliers(ctx) // a new one is found too
	if err != nil {
		return nil, err
	}
	names := make(map[string]string, len(suppliers))
	for _, supplier := range suppliers {
		names[supplier.ID] = supplier.Name
	}
	r.searchSuppliers(suppliers)
	err = errors.Join(s.searchRequests(ctx, &r, names), s.searchDeliveries(ctx, &r, names))
	r.single()
	return r, err
}

func (r *searchResult) searchSuppliers(all []supplierauth.Supplier) {
	for _, supplier := range all {
		if supplier.ID == r.Text || strings.Contains(strings.ToLower(supplier.Name), strings.ToLower(r.Text)) {
			if r.Suppliers = append(r.Suppliers, supplier); len(r.Suppliers) == rows {
				return
			}
		}
	}
}

func (s *Service) searchRequests(ctx context.Context, r *searchResult, names map[string]string) error {
	id, err := strconv.ParseInt(r.Text, 10, 64)
	if err != nil {
		return nil
	}
	ids := make([]string, 0, len(names))
	for supplier := range names {
		ids = append(ids, supplier)
	}
	slices.Sort(ids)
	for chunk := range slices.Chunk(ids, chunkOfFinds) {
		found, err := s.deps.Requests.FindAny(ctx, chunk, id)
		if err != nil {
			return err
		}
		r.Requests = append(r.Requests, named(found, names)...)
	}
	return nil
}

func (s *Service) searchDeliveries(ctx context.Context, r *searchResult, names map[string]string) error {
	ids := []string{r.Text}
	if !strings.HasPrefix(r.Text, "msg_") {
		var err error
		if ids, err = s.deps.Deliveries.Traced(ctx, r.Text); err != nil {
			return err
		}
	}
	for _, id := range ids {
		detail, err := s.deps.Deliveries.Show(ctx, id)
		if errs.KindOf(err) == errs.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		r.Deliveries = append(r.Deliveries, deliveryRow{detail.Delivery, names[detail.SupplierID]})
	}
	return nil
}

// single leads on when there is one thing to look at.
func (r *searchResult) single() {
	switch {
	case len(r.Requests)+len(r.Deliveries)+len(r.Suppliers) != 1:
	case len(r.Requests) == 1:
		r.Only = "/requests/" + r.Requests[0].SupplierID + "/" + strconv.FormatInt(r.Requests[0].ID, 10)
	case len(r.Deliveries) == 1 && strings.HasPrefix(r.Text, "msg_"):
		r.Only = "/deliveries/" + r.Deliveries[0].ID
	case len(r.Deliveries) == 1:
		r.Only = "/requests/" + r.Deliveries[0].SupplierID + "/" + strconv.FormatInt(r.Deliveries[0].RequestID, 10)
	}
}
