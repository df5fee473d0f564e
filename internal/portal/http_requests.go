package portal

import (
	"slices"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/materials"
)

const (
	requestsPath = "/requests"
	sentShown    = 20 // deliveries on a request's page
)

type requestsPage struct {
	listing
	Items    []materials.Overview
	Choices  []choice
	Filtered bool
}

// Waiting reports whether something on the page changes by itself.
func (p requestsPage) Waiting() bool {
	return slices.ContainsFunc(p.Items, func(r materials.Overview) bool { return r.Status == materials.Enqueued })
}

// ShowRequests handles GET /portal/requests.
func (s *Service) ShowRequests(c *gin.Context) error {
	list, violations := httpapi.ParseList(c.Request.URL.Query())
	filter := materials.Filter{SupplierID: caller.SupplierID(c), Status: materials.Status(c.Query("status"))}
	if len(violations) > 0 || filter.Status != "" && !filter.Status.Valid() {
		return errs.InvalidInput("The address has a filter that cannot be read.")
	}
	page, next, err := s.deps.Requests.List(c.Request.Context(), filter, list)
	if err != nil {
		return err
	}
	return s.render(c, "requests", requestsPath, requestsPage{
		newListing(c, next), page,
		s.choices(c, "", "enqueued", "estimated", "selected", "failed"),
		filter.Status != "" || list.Cursor != "",
	})
}

type requestPage struct {
	materials.Record
	Deliveries []deliveries.Sent // none without the scope webhooks
	Now        time.Time
}

// Waiting reports whether the request changes by itself.
func (p requestPage) Waiting() bool { return p.Status == materials.Enqueued }

// Valid reports whether an estimate can be chosen now.
func (p requestPage) Valid(until time.Time) bool {
	return p.Status == materials.Estimated && p.Now.Before(until)
}

// Chosen reports whether the estimate is the chosen one.
func (p requestPage) Chosen(id string) bool {
	return p.SelectedEstimateID != nil && *p.SelectedEstimateID == id
}

// ShowRequest handles GET /portal/requests/{id}.
func (s *Service) ShowRequest(c *gin.Context) error {
	id, err := httpapi.PathInt(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	record, err := httpapi.ReadOne(c, func(fits func(int64) bool) (materials.Record, error) {
		return s.deps.Requests.FindWithin(ctx, caller.SupplierID(c), id, fits)
	})
	if err != nil {
		return err
	}
	var sent []deliveries.Sent
	if permitted(c, caller.ScopeWebhooks) == nil {
		sent, _, err = s.deps.Deliveries.List(ctx, caller.SupplierID(c), deliveries.SentFilter{RequestID: &id},
			httpapi.ListQuery{Limit: sentShown})
		if err != nil {
			return err
		}
	}
	return s.render(c, "request", requestsPath, requestPage{record, sent, s.deps.Now()})
}

// ChooseEstimate handles POST /portal/requests/{id}/choose.
func (s *Service) ChooseEstimate(c *gin.Context) error {
	id, err := httpapi.PathInt(c, "id")
	if err != nil {
		return err
	}
	estimate := strings.TrimSpace(c.PostForm("estimate_id"))
	_, err = s.deps.Requests.Choose(c.Request.Context(), caller.SupplierID(c), id, estimate)
	return s.done(c, err, "The estimate is chosen. The request is now an order.")
}

// EstimateAgain handles POST /portal/requests/{id}/re-estimate.
func (s *Service) EstimateAgain(c *gin.Context) error {
	id, err := httpapi.PathInt(c, "id")
	if err != nil {
		return err
	}
	err = s.deps.Requests.Estimate(c.Request.Context(), caller.SupplierID(c), id)
	return s.done(c, err, "Fresh estimates are on their way.")
}
