package console

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/supplyhub/supplyhub/internal/cursor"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/tracker"
)

const (
	rows      = 50
	mostSteps = 20 // rounds, and deliveries with their attempts, that one page shows
)

// views reads the pages' data and changes nothing.
type views struct{ deps Deps }

// open reads the key from the cursor; the page begins after it. Without a cursor the key stays as it is.
func (q query) open(list cursor.List, key ...*int64) error {
	text := q.values.Get("cursor")
	if wrong := (httpapi.ListQuery{Cursor: text}).Open(list, key...); len(wrong) > 0 {
		return errs.InvalidInput("The cursor is not of this list.", wrong...)
	}
	return nil
}

// orNil returns the cursor for a view, or nil where the list ends.
func orNil(cursor string) *string {
	if cursor == "" {
		return nil
	}
	return &cursor
}

// listView is a page of a list.
type listView[T any] struct {
	Items []T     `json:"items"`
	Next  *string `json:"next_cursor"` // for the parameter cursor; nil: the list ends here
}

type requestRow struct {
	materials.Overview
	Supplier string `json:"supplier_name"`
}

type requestsView = listView[requestRow]

func (s *views) requests(ctx context.Context, q query) (any, error) {
	filter := materials.Filter{Status: materials.Status(q.values.Get("status")), SupplierID: q.values.Get("supplier_id")}
	if filter.Status != "" && !filter.Status.Valid() {
		return nil, errs.New(errs.Invalid,
			"Requests are listed by the status enqueued, estimated, selected or failed, or without a status.")
	}
	behind := int64(materials.Newest)
	list := s.deps.Cursors.List("console requests", filter.SupplierID, string(filter.Status))
	if err := q.open(list, &behind); err != nil {
		return nil, err
	}
	page, next, err := s.deps.Requests.Overviews(ctx, filter, behind, rows)
	if err != nil {
		return nil, err
	}
	var view requestsView
	if next > 0 {
		view.Next = orNil(list.Seal(next))
	}
	view.Items, err = s.named(ctx, page)
	return view, err
}

func (s *views) named(ctx context.Context, page []materials.Overview) ([]requestRow, error) {
	return withNames(ctx, s, page, func(o materials.Overview) string { return o.SupplierID },
		func(o materials.Overview, name string) requestRow { return requestRow{o, name} })
}

func (s *views) namedDeliveries(ctx context.Context, page []deliveries.Delivery) ([]deliveryRow, error) {
	return withNames(ctx, s, page, func(d deliveries.Delivery) string { return d.SupplierID },
		func(d deliveries.Delivery, name string) deliveryRow { return deliveryRow{d, name} })
}

// withNames adds the suppliers' names to a page.
func withNames[T, Row any](ctx context.Context, s *views, page []T, supplier func(T) string,
	row func(one T, name string) Row) ([]Row, error) {
	names, err := s.names(ctx, lists.Of(page, supplier)...)
	return lists.Of(page, func(one T) Row { return row(one, names[supplier(one)]) }), err
}

// names returns the suppliers' names by id.
func (s *views) names(ctx context.Context, ids ...string) (map[string]string, error) {
	slices.Sort(ids)
	if ids = slices.Compact(ids); len(ids) == 0 {
		return map[string]string{}, nil
	}
	return s.deps.Suppliers.Names(ctx, ids)
}

type requestView struct {
	SupplierID string `json:"supplier_id"`
	Supplier   string `json:"supplier_name"`
	TraceID    string `json:"x_request_id"`
	materials.Record
	Rounds     []materials.RoundOverview `json:"rounds"`
	Deliveries []*deliveries.Detail      `json:"deliveries"` // with their attempts, newest first
}

// request returns a request with its rounds, deliveries and attempts.
func (s *views) request(ctx context.Context, q query) (any, error) {
	supplier := q.params.ByName("supplier")
	id, err := strconv.ParseInt(q.params.ByName("id"), 10, 64)
	if err != nil {
		return nil, errs.New(errs.NotFound, "There is no such material request.")
	}
	record, rounds, current, err := s.deps.Requests.Show(ctx, supplier, id, mostSteps)
	if err != nil {
		return nil, err
	}
	names, err := s.names(ctx, supplier)
	if err != nil {
		return nil, err
	}
	view := requestView{SupplierID: supplier, Supplier: names[supplier], TraceID: record.TraceID, Record: record,
		Rounds: rounds}
	of := deliveries.Filter{Requests: []int64{current.UID}}
	found, _, err := s.deps.Deliveries.List(ctx, of, deliveries.Key{}, mostSteps)
	if err != nil {
		return nil, err
	}
	for _, d := range found {
		detail, err := s.deps.Deliveries.ShowNewest(ctx, d.ID)
		if err != nil {
			return nil, err
		}
		view.Deliveries = append(view.Deliveries, detail)
	}
	return view, nil
}

type deliveryRow struct {
	deliveries.Delivery
	Supplier string `json:"supplier_name"`
}

type deliveriesView = listView[deliveryRow]

func (s *views) deliveries(ctx context.Context, q query) (any, error) {
	filter := deliveries.Filter{Receiver: q.values.Get("supplier_id"), Status: deliveries.Status(q.values.Get("status"))}
	known := []deliveries.Status{"", deliveries.Pending, deliveries.Delivered, deliveries.Dead, deliveries.Failed}
	if !slices.Contains(known, filter.Status) {
		return nil, errs.New(errs.Invalid,
			"Deliveries are listed by the status pending, delivered, dead or failed, or without a status.")
	}
	var behind deliveries.Key
	list := s.deps.Cursors.List("console deliveries", filter.Receiver, string(filter.Status))
	if err := q.open(list, &behind.UID, &behind.Round, &behind.Kind); err != nil {
		return nil, err
	}
	page, next, err := s.deps.Deliveries.List(ctx, filter, behind, rows)
	if err != nil {
		return nil, err
	}
	var view deliveriesView
	if !next.IsZero() {
		view.Next = orNil(list.Seal(next.UID, next.Round, next.Kind))
	}
	view.Items, err = s.namedDeliveries(ctx, page)
	return view, err
}

type deliveryView struct {
	*deliveries.Detail
	Supplier string `json:"supplier_name"`
}

func (s *views) delivery(ctx context.Context, q query) (any, error) {
	detail, err := s.deps.Deliveries.ShowNewest(ctx, q.params.ByName("id"))
	if err != nil {
		return nil, err
	}
	names, err := s.names(ctx, detail.SupplierID)
	return deliveryView{detail, names[detail.SupplierID]}, err
}

type trackersView struct {
	Items []tracker.Client `json:"items"`
}

func (s *views) trackers(ctx context.Context, _ query) (any, error) {
	clients, err := s.deps.Trackers.ListClients(ctx)
	return trackersView{clients}, err
}

// searchResult is everything that a search found.
type searchResult struct {
	Text       string                  `json:"text"`
	Requests   []requestRow            `json:"requests"`
	Deliveries []deliveryRow           `json:"deliveries"`
	Suppliers  []supplierauth.Supplier `json:"suppliers"`
	Only       string                  `json:"-"` // the path of the only thing found
}

// search finds requests by id, deliveries by id, suppliers by name or id, and the newest requests by X-Request-Id.
func (s *views) search(ctx context.Context, q query) (any, error) {
	text := strings.TrimSpace(q.values.Get("q"))
	r := searchResult{Text: text, Requests: []requestRow{}, Deliveries: []deliveryRow{},
		Suppliers: []supplierauth.Supplier{}}
	if text == "" {
		return r, nil
	}
	group, within := errgroup.WithContext(ctx)
	group.Go(func() (err error) {
		r.Suppliers, err = s.deps.Suppliers.SearchSuppliers(within, text, rows)
		return err
	})
	group.Go(func() error { return s.searchRequests(within, &r) })
	group.Go(func() error { return s.searchDeliveries(within, &r) })
	err := group.Wait()
	if err == nil && len(r.Requests)+len(r.Deliveries)+len(r.Suppliers) == 0 { // the request may have no event yet
		found, failed := s.deps.Requests.Traced(ctx, text, rows)
		err = s.showRequests(ctx, &r, found, failed)
	}
	r.single()
	return r, err
}

func (s *views) searchRequests(ctx context.Context, r *searchResult) error {
	id, err := strconv.ParseInt(r.Text, 10, 64)
	if err != nil {
		return nil
	}
	found, err := s.deps.Requests.OfID(ctx, id, rows)
	return s.showRequests(ctx, r, found, err)
}

// showRequests has the result show the requests that a read found.
func (s *views) showRequests(ctx context.Context, r *searchResult, found []materials.Overview, err error) error {
	if err == nil {
		r.Requests, err = s.named(ctx, found)
	}
	return err
}

func (s *views) searchDeliveries(ctx context.Context, r *searchResult) error {
	ids := []string{r.Text}
	if !strings.HasPrefix(r.Text, "msg_") {
		var err error
		if ids, err = s.deps.Deliveries.Traced(ctx, r.Text); err != nil {
			return err
		}
	}
	var found []deliveries.Delivery
	for _, id := range ids {
		detail, err := s.deps.Deliveries.ShowNewest(ctx, id)
		if errs.KindOf(err) == errs.NotFound {
			continue
		}
		if err != nil {
			return err
		}
		found = append(found, detail.Delivery)
	}
	var err error
	r.Deliveries, err = s.namedDeliveries(ctx, found)
	return err
}

// single notes the page to redirect to when the search found only one thing.
func (r *searchResult) single() {
	switch {
	case len(r.Requests)+len(r.Deliveries)+len(r.Suppliers) != 1:
	case len(r.Suppliers) == 1:
		r.Only = "/suppliers/" + r.Suppliers[0].ID
	case len(r.Requests) == 1:
		r.Only = "/requests/" + r.Requests[0].SupplierID + "/" + strconv.FormatInt(r.Requests[0].ID, 10)
	case len(r.Deliveries) == 1 && strings.HasPrefix(r.Text, "msg_"):
		r.Only = "/deliveries/" + r.Deliveries[0].ID
	case len(r.Deliveries) == 1:
		r.Only = "/requests/" + r.Deliveries[0].SupplierID + "/" + strconv.FormatInt(r.Deliveries[0].RequestID, 10)
	}
}
