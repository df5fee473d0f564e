package portal

import (
	"net/http"
	"slices"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/web"
)

const (
	deliveriesPath = "/deliveries"
	formBytes      = 16 << 10 // of a form's body
)

type deliveriesPage struct {
	listing
	Items    []deliveries.Sent
	Choices  []choice
	Request  string // filters as they are in the address
	Status   deliveries.Status
	Since    time.Time
	Until    time.Time
	Filtered bool
	Receiver receivers.ReceiverView
	DayAgo   time.Time
}

// Waiting reports whether something on the page changes by itself.
func (p deliveriesPage) Waiting() bool {
	return slices.ContainsFunc(p.Items, func(d deliveries.Sent) bool { return d.Status == deliveries.Pending })
}

// ShowDeliveries handles GET /portal/deliveries; its filters are those of GET /api/webhook-deliveries.
func (s *Service) ShowDeliveries(c *gin.Context) error {
	query := c.Request.URL.Query()
	for _, name := range []string{"since", "until"} { // without the script a form sends a local time: it is read as UTC
		if at, err := time.Parse("2006-01-02T15:04", query.Get(name)); err == nil {
			query.Set(name, at.Format(time.RFC3339))
		}
	}
	for name, values := range query { // a form sends its empty fields too
		if len(values) == 1 && values[0] == "" {
			query.Del(name)
		}
	}
	filter, list, violations := deliveries.ParseSentFilter(query)
	if len(violations) > 0 {
		return errs.InvalidInput("The address has a filter that cannot be read.")
	}
	ctx := c.Request.Context()
	items, next, err := s.deps.Deliveries.List(ctx, caller.SupplierID(c), filter, list)
	if err != nil {
		return err
	}
	receiver, err := s.deps.Receiver.Receiver(ctx, caller.SupplierID(c))
	if err != nil {
		return err
	}
	return s.render(c, "deliveries", deliveriesPath, deliveriesPage{
		listing: newListing(c, next), Items: items, Receiver: receiver,
		Choices: s.choices(c, "", "pending", "delivered", "dead", "failed"),
		Request: query.Get("request_id"), Status: filter.Status, Since: filter.Since, Until: filter.Until,
		Filtered: filter != deliveries.SentFilter{} || list.Cursor != "",
		DayAgo:   s.deps.Now().UTC().Truncate(time.Minute).Add(-24 * time.Hour),
	})
}

type deliveryPage struct {
	deliveries.SentDetail
	Receiver receivers.ReceiverView
}

// Waiting reports whether the delivery changes by itself.
func (p deliveryPage) Waiting() bool { return p.Status == deliveries.Pending }

// ShowDelivery handles GET /portal/deliveries/{id}.
func (s *Service) ShowDelivery(c *gin.Context) error {
	ctx := c.Request.Context()
	id, err := httpapi.PathText(c, "id")
	if err != nil {
		return err
	}
	detail, err := s.deps.Deliveries.Show(ctx, caller.SupplierID(c), id)
	if err != nil {
		return err
	}
	receiver, err := s.deps.Receiver.Receiver(ctx, caller.SupplierID(c))
	if err != nil {
		return err
	}
	return s.render(c, "delivery", deliveriesPath, deliveryPage{detail, receiver})
}

// Redeliver handles POST /portal/deliveries/{id}/redeliver.
func (s *Service) Redeliver(c *gin.Context) error {
	id, err := httpapi.PathText(c, "id")
	if err == nil {
		err = s.deps.Deliveries.Redeliver(c.Request.Context(), caller.SupplierID(c), id)
	}
	return s.done(c, err, "The delivery will be sent again.")
}

// Recover handles POST /portal/deliveries/redeliver.
func (s *Service) Recover(c *gin.Context) error {
	wanted := deliveries.Recovery{Status: posted(c, "status"), Since: posted(c, "since"), Until: posted(c, "until")}
	if wrong := wanted.Validate(); len(wrong) > 0 {
		return errs.InvalidInput("The recovery could not be started.", wrong...)
	}
	n, err := s.deps.Deliveries.Recover(c.Request.Context(), caller.SupplierID(c), wanted.Filter())
	if err != nil || n == 0 {
		return s.done(c, err,
			"Nothing to recover now: no delivery with this status was created in this time, or your receiver is paused.")
	}
	return s.site.Answer(c, http.StatusOK, web.Outcome{
		Message: s.site.Count(c, "%d delivery will be sent again.", "%d deliveries will be sent again.", n)})
}

// posted returns a field of a form; nil: it is empty.
func posted(c *gin.Context, name string) *string {
	if text := c.PostForm(name); text != "" {
		return &text
	}
	return nil
}
