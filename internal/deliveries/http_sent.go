package deliveries

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// sentText is how many bytes of text one delivery has in a list.
const sentText = 700

// ListDeliveries handles GET /api/webhook-deliveries.
func (s *SelfService) ListDeliveries(c *gin.Context) error {
	query, err := httpapi.Query(c)
	if err != nil {
		return err
	}
	filter, list, violations := ParseSentFilter(query)
	violations = append(violations, httpapi.UnknownParameters(query, "status", "request_id", "since", "until")...)
	if len(violations) > 0 {
		_, wrong := s.open(caller.SupplierID(c), filter, list)
		return errs.InvalidInput("The parameters are not valid.", append(violations, wrong...)...)
	}
	if err := httpapi.HoldText(c, int64(list.Limit)*sentText); err != nil {
		return err
	}
	items, next, err := s.List(c.Request.Context(), caller.SupplierID(c), filter, list)
	if err != nil {
		return err
	}
	return httpapi.AnswerList(c, next, httpapi.Part[Sent]{Size: int64(list.Limit) * sentText,
		Read: func() ([]Sent, error) { return items, nil }})
}

// ParseSentFilter reads the parameters of a listing and returns every violation.
func ParseSentFilter(query url.Values) (SentFilter, httpapi.ListQuery, []errs.Violation) {
	list, violations := httpapi.ParseList(query)
	var filter SentFilter
	read := func(name, detail string, valid func(text string) bool) {
		violations = append(violations, httpapi.Parameter(query, name, detail, valid)...)
	}
	read("status", "must be pending, delivered, dead or failed", func(text string) bool {
		filter.Status = Status(text)
		return slices.Contains(statuses, filter.Status)
	})
	read("request_id", "must be a 64-bit integer", func(text string) bool {
		id, err := strconv.ParseInt(text, 10, 64)
		filter.RequestID = &id
		return err == nil && strconv.FormatInt(id, 10) == text
	})
	read("since", momentDetail, httpapi.MomentTo(&filter.Since))
	read("until", momentDetail, httpapi.MomentTo(&filter.Until))
	if query.Get("until") != "" && filter.Until.IsZero() {
		filter.Until = filter.Until.Add(1) // the first moment of all is a bound too
	}
	return filter, list, violations
}

const momentDetail = "must be a date and time such as 2026-11-21T12:00:00Z"

// ShowDelivery handles GET /api/webhook-deliveries/{id}.
func (s *SelfService) ShowDelivery(c *gin.Context) error {
	id, err := httpapi.PathText(c, "id")
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	row, sent, err := s.store.sentEvent(ctx, caller.SupplierID(c), id)
	if err != nil {
		return err
	}
	var parts []httpapi.Part[AnsweredAttempt]
	for after := int64(0); after == 0 || after < row.AttemptCount; after += partAttempts {
		parts = append(parts, httpapi.Part[AnsweredAttempt]{Size: min(row.AttemptCount, partAttempts) * attemptText,
			Read: func() ([]AnsweredAttempt, error) { return s.store.answeredOf(ctx, *row, after, partAttempts) }})
	}
	return httpapi.AnswerParts(c, sent, "attempts", parts...)
}

// RedeliverDelivery handles POST /api/webhook-deliveries/{id}/redeliver. The request has no body.
func (s *SelfService) RedeliverDelivery(c *gin.Context) error {
	id, err := httpapi.PathText(c, "id")
	if err != nil {
		return err
	}
	if err := s.Redeliver(c.Request.Context(), caller.SupplierID(c), id); err != nil {
		return err
	}
	return httpapi.JSON(c, http.StatusAccepted, struct {
		ID     string `json:"id"`
		Status Status `json:"status"`
	}{id, Pending})
}

// Recovery is what a recovery is asked for, by the API and in the portal.
type Recovery struct {
	Status *string `json:"status"`
	Since  *string `json:"since"`
	Until  *string `json:"until"`
}

// Validate returns every violation.
func (b *Recovery) Validate() []errs.Violation {
	var c errs.Check
	errs.Member(&c, "/status", b.Status, func(text string) bool { return slices.Contains(Recoverable(), Status(text)) },
		"must be undelivered, pending, dead, failed or delivered")
	var since, until time.Time
	errs.Member(&c, "/since", b.Since, httpapi.MomentTo(&since), momentDetail)
	if b.Until == nil {
		return c.Found
	}
	errs.Member(&c, "/until", b.Until, httpapi.MomentTo(&until), momentDetail)
	if len(c.Found) == 0 && !until.After(since) { // it would look as if there were nothing to recover
		c.Add("/until", "must be after since")
	}
	return c.Found
}

// Filter returns the deliveries that a valid one chooses.
func (b *Recovery) Filter() SentFilter {
	filter := SentFilter{Status: Status(*b.Status)}
	filter.Since, _ = httpapi.Moment(*b.Since)
	if b.Until != nil {
		filter.Until, _ = httpapi.Moment(*b.Until)
	}
	return filter
}

// RecoverDeliveries handles POST /api/webhook-deliveries/redeliver.
func (s *SelfService) RecoverDeliveries(c *gin.Context) error {
	body, err := httpapi.DecodeJSON(c, (*Recovery).Validate)
	if err != nil {
		return err
	}
	n, err := s.Recover(c.Request.Context(), caller.SupplierID(c), body.Filter())
	if err != nil {
		return err
	}
	return httpapi.JSON(c, http.StatusAccepted, struct {
		Redelivered int64 `json:"redelivered"`
	}{n})
}
