package materials

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// The suppliers' routes. A body is decoded once, strictly, and every violation is reported. A call that waits for
// estimates (?wait) only reads: one that is cut off has lost nothing.

// Handlers answer the package's routes. They are apart from Service because the linker keeps all exported methods of
// what reflection may reach: a worker, which has no routes, would link gin.
type Handlers struct {
	*Service
	Bearer Authenticator // for the receiving end of the events
}

// statusAnswer is the answer to a request that is accepted, and to estimates, whether they changed something or not.
type statusAnswer struct {
	Status Status `json:"status"`
	ID     int64  `json:"id"`
}

// duplicatesAnswer is the answer to a request with repeated combinations: the interface gives it a form of its own.
type duplicatesAnswer struct {
	Message    string      `json:"message"`
	Duplicates []Duplicate `json:"duplicates"`
}

// Create handles POST /api/material-requests.
func (s Handlers) Create(c *gin.Context) error {
	request, err := readRequest(c)
	if err != nil {
		return err
	}
	if repeated := request.Duplicates(); len(repeated) > 0 {
		return httpapi.JSON(c, http.StatusUnprocessableEntity,
			duplicatesAnswer{"Duplicate material items are not allowed.", repeated})
	}
	request.TraceParent = s.deps.TraceParent(c.Request.Context())
	if err := s.Submit(c.Request.Context(), request); err != nil {
		return err
	}
	return httpapi.JSON(c, http.StatusCreated, statusAnswer{Enqueued, request.ID})
}

// readRequest returns the posted request of the caller. Its errors are httpapi.DecodeJSON's: errs.Invalid names every
// violation.
func readRequest(c *gin.Context) (Request, error) {
	body, err := httpapi.DecodeJSON(c, (*requestBody).validate)
	if err != nil {
		return Request{}, err
	}
	ctx := c.Request.Context()
	request := body.request()
	request.SupplierID, request.TraceID = caller.From(ctx).SupplierID, logctx.RequestID(ctx)
	return request, nil
}

// Get handles GET /api/material-requests/{id}; with wait it answers as soon as the request is not enqueued any more.
func (s Handlers) Get(c *gin.Context) error {
	id, err := httpapi.PathInt(c, "id")
	if err != nil {
		return err
	}
	query, err := httpapi.Query(c)
	if err != nil {
		return err
	}
	var wait time.Duration
	violations := httpapi.Parameter(query, "wait", "must be a duration of at most 60s, such as 30s",
		func(text string) (ok bool) {
			wait, err = time.ParseDuration(text)
			return err == nil && wait >= 0 && wait <= longestWait
		})
	if len(violations) > 0 {
		return errs.InvalidInput("The parameters are not valid.", violations...)
	}
	ctx := c.Request.Context()
	key := requestKey{caller.From(ctx).SupplierID, id}
	if wait > 0 {
		if err := s.await(ctx, key, wait); err != nil {
			return err
		}
	}
	record, err := httpapi.ReadOne(c, func(fits func(int64) bool) (Record, error) {
		return s.store.find(ctx, key.SupplierID, key.ID, fits)
	})
	return httpapi.Answer(c, record, err)
}

// List handles GET /api/material-requests: the caller's own, newest first.
func (s Handlers) List(c *gin.Context) error {
	query, err := httpapi.Query(c)
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	page, violations := httpapi.ParseList(query)
	violations = append(violations, httpapi.UnknownParameters(query, "status")...)
	filter := Filter{SupplierID: caller.From(ctx).SupplierID}
	violations = append(violations, httpapi.Parameter(query, "status", "must be enqueued, estimated, selected or failed",
		func(text string) bool {
			filter.Status = Status(text)
			return filter.Status.Valid()
		})...)
	behind, list := int64(Newest), s.cursors(filter)
	violations = append(violations, page.Open(list, &behind)...)
	if len(violations) > 0 {
		return errs.InvalidInput("The parameters are not valid.", violations...)
	}
	l, err := s.store.requestsPage(ctx, filter, behind, page.Limit)
	if err != nil {
		return err
	}
	next := l.next(func(last listed) string { return list.Seal(last.uid) })
	return httpapi.AnswerList(c, next, shown(ctx, l, func(records []Record) []Record { return records })...)
}

// Reestimate handles POST /api/material-requests/{id}/re-estimate. It has no body.
func (s Handlers) Reestimate(c *gin.Context) error {
	id, err := httpapi.PathInt(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	if err := s.Estimate(ctx, caller.From(ctx).SupplierID, id); err != nil {
		return err
	}
	return httpapi.JSON(c, http.StatusAccepted, statusAnswer{Enqueued, id})
}

// selectionBody is a posted choice; nil is missing or null.
type selectionBody struct {
	EstimateID *string `json:"estimate_id"`
}

// validate names every rule that the body breaks.
func (b *selectionBody) validate() []errs.Violation {
	var c errs.Check
	c.Text("/estimate_id", b.EstimateID, math.MaxInt)
	return c.Found
}

// selectionAnswer is the answer to a choice.
type selectionAnswer struct {
	Status     Status    `json:"status"`
	ID         int64     `json:"id"`
	EstimateID string    `json:"estimate_id"`
	SelectedAt time.Time `json:"selected_at"`
}

// Select handles PATCH /api/material-requests/{id}/selected-estimate.
func (s Handlers) Select(c *gin.Context) error {
	id, err := httpapi.PathInt(c, "id")
	if err != nil {
		return err
	}
	body, err := httpapi.DecodeJSON(c, (*selectionBody).validate)
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	at, err := s.Choose(ctx, caller.From(ctx).SupplierID, id, *body.EstimateID)
	return httpapi.Answer(c, selectionAnswer{Selected, id, *body.EstimateID, at}, err)
}

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
	page, violations := httpapi.ParseList(query)
	violations = append(violations, httpapi.UnknownParameters(query)...)
	selectedAt, behind, list := int64(math.MaxInt64), int64(Newest), s.deps.Cursors.List("orders")
	violations = append(violations, page.Open(list, &selectedAt, &behind)...)
	if len(violations) > 0 {
		return errs.InvalidInput("The parameters are not valid.", violations...)
	}
	ctx := c.Request.Context()
	l, err := s.store.ordersPage(ctx, selectedAt, behind, page.Limit)
	if err != nil {
		return fmt.Errorf("list orders: %w", err)
	}
	next := l.next(func(last listed) string { return list.Seal(last.selectedAt, last.uid) })
	return httpapi.AnswerList(c, next, shown(ctx, l, ordersOf)...)
}

// shown returns a page in parts that are read when they are asked for, as a list shows its records.
func shown[T any](ctx context.Context, l listing, as func([]Record) []T) []httpapi.Part[T] {
	rows, sizes := l.parts()
	parts := make([]httpapi.Part[T], len(rows))
	for i := range rows {
		parts[i] = httpapi.Part[T]{Size: sizes[i], Read: func() ([]T, error) {
			records, err := l.store.records(ctx, rows[i])
			return as(records), err
		}}
	}
	return parts
}

// ordersOf returns records as the list of orders shows them.
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
