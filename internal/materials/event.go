package materials

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// An event as the own endpoint takes it. One of our own workers, proved by its header, is believed; all others are
// checked member by member here, since suppliers who estimate by themselves post events too. The same rules check
// what an estimator made before it is stored and sent (CheckEstimates), so that nothing is sent that would be
// refused.

const (
	eventTextLimit   = 255       // characters of an id, a name or a code
	eventReasonLimit = 4000      // characters of a reason
	eventPriceLimit  = 1<<53 - 1 // cents: above that a reader of JSON may see another number
	eventUsual       = 8         // estimates that there is room for from the start: a hostile event has 200,000 times null
)

// eventBody is a received event; nil is missing or null.
type eventBody struct {
	Type      *string    `json:"type"`
	Timestamp *string    `json:"timestamp"`
	Data      *eventData `json:"data"`
}

// eventData is the data of a received event.
type eventData struct {
	SupplierID  *string             `json:"supplier_id"`
	RequestID   *int64              `json:"request_id"`
	ShopCode    *string             `json:"shop_code"`
	Estimates   []*eventEstimate    `json:"estimates"`
	Unavailable []*eventUnavailable `json:"unavailable"`
}

// eventEstimate is one estimate of a received event.
type eventEstimate struct {
	EstimateID         *string  `json:"estimate_id"`
	Service            *string  `json:"service"`
	Carrier            *string  `json:"carrier"`
	PriceCents         *int64   `json:"price_cents"`
	Currency           *string  `json:"currency"`
	LeadTimeDays       *int64   `json:"lead_time_days"`
	DispatchDate       *string  `json:"dispatch_date"`
	DeliveryDate       *string  `json:"delivery_date"`
	ChargeableWeightKg *float64 `json:"chargeable_weight_kg"`
	VolumeM3           *float64 `json:"volume_m3"`
	ValidUntil         *string  `json:"valid_until"`
}

// eventUnavailable is a service that cannot be offered, of a received event.
type eventUnavailable struct {
	Service *string `json:"service"`
	Reason  *string `json:"reason"`
}

// event returns the body as an event, with every violation. requestID is the one that the path names.
func (b *eventBody) event(requestID int64) (webhook.Event, []errs.Violation) {
	var c errs.Check
	event := webhook.Event{Type: webhook.TypeEstimated}
	errs.Member(&c, "/type", b.Type, errs.OneOf(webhook.TypeEstimated), "must be "+webhook.TypeEstimated)
	event.Timestamp = checkMoment(&c, "/timestamp", b.Timestamp)
	if b.Data == nil {
		c.Add("/data", errs.Required)
		return event, c.Found
	}
	event.Data = b.Data.data(&c, requestID)
	return event, c.Found
}

// data returns the data, checked.
func (d *eventData) data(c *errs.Check, requestID int64) webhook.Data {
	data := webhook.Data{
		SupplierID: c.Text("/data/supplier_id", d.SupplierID, eventTextLimit), RequestID: requestID,
		ShopCode: c.Text("/data/shop_code", d.ShopCode, eventTextLimit)}
	errs.Member(c, "/data/request_id", d.RequestID, errs.OneOf(requestID), "must be the id in the path")
	data.Estimates, data.Unavailable = d.estimates(c), d.unavailable(c)
	return data
}

// estimates returns the estimates, whose ids must be distinct.
func (d *eventData) estimates(c *errs.Check) []webhook.Estimate {
	ids := make(map[string]bool, min(len(d.Estimates), eventUsual))
	return checkEach(c, "/data/estimates", d.Estimates, func(e *eventEstimate) webhook.Estimate {
		estimate := e.estimate(c)
		if id := estimate.EstimateID; id != "" && ids[id] {
			c.Add("/estimate_id", "must not be the id of another estimate")
		}
		ids[estimate.EstimateID] = true
		return estimate
	})
}

// unavailable returns the services that cannot be offered.
func (d *eventData) unavailable(c *errs.Check) []webhook.Unavailable {
	return checkEach(c, "/data/unavailable", d.Unavailable, func(u *eventUnavailable) webhook.Unavailable {
		return webhook.Unavailable{Service: c.Text("/service", u.Service, eventTextLimit),
			Reason: c.Text("/reason", u.Reason, eventReasonLimit)}
	})
}

// checkEach returns the items of a list, each checked. It ends early when there are violations enough.
func checkEach[B, T any](c *errs.Check, pointer string, list []*B, item func(*B) T) []T {
	checked := make([]T, 0, min(len(list), eventUsual))
	if list == nil {
		c.Add(pointer, errs.Required)
	}
	defer c.In("", 0)
	for i, body := range list {
		if len(c.Found) >= httpapi.EnoughViolations {
			break
		}
		c.In(pointer+"/", i)
		if body == nil {
			c.Add("", errs.Required)
			continue
		}
		checked = append(checked, item(body))
	}
	return checked
}

// estimate returns one estimate, checked member by member.
func (e *eventEstimate) estimate(c *errs.Check) webhook.Estimate {
	estimate := webhook.Estimate{
		EstimateID:         c.Text("/estimate_id", e.EstimateID, eventTextLimit),
		Service:            c.Text("/service", e.Service, eventTextLimit),
		Carrier:            c.Text("/carrier", e.Carrier, eventTextLimit),
		PriceCents:         checkCount(c, "/price_cents", e.PriceCents, eventPriceLimit),
		Currency:           errs.Member(c, "/currency", e.Currency, currencyCode.MatchString, currencyDetail),
		LeadTimeDays:       int(checkCount(c, "/lead_time_days", e.LeadTimeDays, math.MaxInt32)),
		DispatchDate:       errs.Member(c, "/dispatch_date", e.DispatchDate, isDay, dayDetail),
		DeliveryDate:       errs.Member(c, "/delivery_date", e.DeliveryDate, isDay, dayDetail),
		ChargeableWeightKg: errs.Member(c, "/chargeable_weight_kg", e.ChargeableWeightKg, isAmount, amountDetail),
		VolumeM3:           errs.Member(c, "/volume_m3", e.VolumeM3, isAmount, amountDetail),
		ValidUntil:         checkMoment(c, "/valid_until", e.ValidUntil),
	}
	// ISO days compare as text.
	if estimate.DispatchDate != "" && estimate.DeliveryDate != "" && estimate.DeliveryDate < estimate.DispatchDate {
		c.Add("/delivery_date", "must not be before dispatch_date")
	}
	return estimate
}

// CheckEstimates checks what an estimator made by the rules of the endpoint that stores it; its error names every
// violation.
func CheckEstimates(estimates []webhook.Estimate, unavailable []webhook.Unavailable) error {
	data := eventData{Estimates: make([]*eventEstimate, len(estimates)),
		Unavailable: make([]*eventUnavailable, len(unavailable))}
	for i, e := range estimates {
		data.Estimates[i] = &eventEstimate{EstimateID: &e.EstimateID, Service: &e.Service, Carrier: &e.Carrier,
			PriceCents: &e.PriceCents, Currency: &e.Currency, LeadTimeDays: new(int64(e.LeadTimeDays)),
			DispatchDate: &e.DispatchDate, DeliveryDate: &e.DeliveryDate, ChargeableWeightKg: &e.ChargeableWeightKg,
			VolumeM3: &e.VolumeM3, ValidUntil: new(e.ValidUntil.Format(time.RFC3339Nano))}
	}
	for i, u := range unavailable {
		data.Unavailable[i] = &eventUnavailable{Service: &u.Service, Reason: &u.Reason}
	}
	var c errs.Check
	data.estimates(&c)
	data.unavailable(&c)
	if len(c.Found) == 0 {
		return nil
	}
	texts := lists.Of(c.Found, func(v errs.Violation) string {
		return strings.TrimPrefix(*v.Pointer, "/data/") + " " + v.Detail
	})
	return errors.New(strings.Join(texts, "; "))
}

const (
	currencyDetail = "must be a currency code of three capital letters (ISO 4217)"
	dayDetail      = "must be a calendar day, YYYY-MM-DD"
	amountDetail   = "must be a finite number of at least 0"
)

var currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)

func isDay(text string) bool {
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

func isAmount(v float64) bool { return v >= 0 && !math.IsInf(v, 1) }

// checkCount checks a whole number from 0 to the limit.
func checkCount(c *errs.Check, pointer string, value *int64, limit int64) int64 {
	if value != nil && *value >= 0 && *value <= limit {
		return *value
	}
	return errs.Member(c, pointer, value, func(int64) bool { return false },
		fmt.Sprintf("must be an integer from 0 to %d", limit))
}

// checkMoment checks a time of RFC 3339.
func checkMoment(c *errs.Check, pointer string, value *string) (at time.Time) {
	errs.Member(c, pointer, value, httpapi.MomentTo(&at), "must be a date-time of RFC 3339, years 1 to 9999")
	return at
}
