package materials

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
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
	var c eventCheck
	event := webhook.Event{Type: webhook.TypeEstimated}
	if b.Type == nil {
		c.missing("/type")
	} else if *b.Type != webhook.TypeEstimated {
		c.add("/type", "must be "+webhook.TypeEstimated)
	}
	event.Timestamp = c.moment("/timestamp", b.Timestamp)
	if b.Data == nil {
		c.missing("/data")
		return event, c.found
	}
	event.Data = b.Data.data(&c, requestID)
	return event, c.found
}

// data returns the data, checked.
func (d *eventData) data(c *eventCheck, requestID int64) webhook.Data {
	data := webhook.Data{
		SupplierID: c.text("/data/supplier_id", d.SupplierID, eventTextLimit), RequestID: requestID,
		ShopCode: c.text("/data/shop_code", d.ShopCode, eventTextLimit)}
	if d.RequestID == nil {
		c.missing("/data/request_id")
	} else if *d.RequestID != requestID {
		c.add("/data/request_id", "must be the id in the path")
	}
	data.Estimates = d.estimates(c)
	data.Unavailable = d.unavailable(c)
	return data
}

// estimates returns the estimates, whose ids must be distinct. It ends early when there are violations enough.
func (d *eventData) estimates(c *eventCheck) []webhook.Estimate {
	estimates := make([]webhook.Estimate, 0, min(len(d.Estimates), eventUsual))
	if d.Estimates == nil {
		c.missing("/data/estimates")
	}
	defer func() { c.list = "" }()
	ids := make(map[string]bool, min(len(d.Estimates), eventUsual))
	for i, e := range d.Estimates {
		if c.full() {
			break
		}
		c.list, c.item = "/data/estimates/", i
		if e == nil {
			c.missing("")
			continue
		}
		estimate := e.estimate(c)
		if id := estimate.EstimateID; id != "" && ids[id] {
			c.add("/estimate_id", "must not be the id of another estimate")
		}
		ids[estimate.EstimateID] = true
		estimates = append(estimates, estimate)
	}
	return estimates
}

// unavailable returns the services that cannot be offered.
func (d *eventData) unavailable(c *eventCheck) []webhook.Unavailable {
	unavailable := []webhook.Unavailable{}
	if d.Unavailable == nil {
		c.missing("/data/unavailable")
	}
	defer func() { c.list = "" }()
	for i, u := range d.Unavailable {
		if c.full() {
			break
		}
		c.list, c.item = "/data/unavailable/", i
		if u == nil {
			c.missing("")
			continue
		}
		unavailable = append(unavailable, webhook.Unavailable{
			Service: c.text("/service", u.Service, eventTextLimit), Reason: c.text("/reason", u.Reason, eventReasonLimit),
		})
	}
	return unavailable
}

// estimate returns one estimate, checked member by member.
func (e *eventEstimate) estimate(c *eventCheck) webhook.Estimate {
	estimate := webhook.Estimate{
		EstimateID:         c.text("/estimate_id", e.EstimateID, eventTextLimit),
		Service:            c.text("/service", e.Service, eventTextLimit),
		Carrier:            c.text("/carrier", e.Carrier, eventTextLimit),
		PriceCents:         c.count("/price_cents", e.PriceCents, eventPriceLimit),
		Currency:           c.currency("/currency", e.Currency),
		LeadTimeDays:       int(c.count("/lead_time_days", e.LeadTimeDays, math.MaxInt32)),
		DispatchDate:       c.day("/dispatch_date", e.DispatchDate),
		DeliveryDate:       c.day("/delivery_date", e.DeliveryDate),
		ChargeableWeightKg: c.amount("/chargeable_weight_kg", e.ChargeableWeightKg),
		VolumeM3:           c.amount("/volume_m3", e.VolumeM3),
		ValidUntil:         c.moment("/valid_until", e.ValidUntil),
	}
	// ISO days compare as text.
	if estimate.DispatchDate != "" && estimate.DeliveryDate != "" && estimate.DeliveryDate < estimate.DispatchDate {
		c.add("/delivery_date", "must not be before dispatch_date")
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
	var c eventCheck
	data.estimates(&c)
	data.unavailable(&c)
	if len(c.found) == 0 {
		return nil
	}
	texts := make([]string, len(c.found))
	for i, v := range c.found {
		texts[i] = strings.TrimPrefix(*v.Pointer, "/data/") + " " + v.Detail
	}
	return errors.New(strings.Join(texts, "; "))
}

// eventCheck collects violations; each method checks one required value and gives it, or zero when it breaks a rule.
// Pointers are built for broken rules only: most events break none.
type eventCheck struct {
	list  string // the one whose item is checked; "" outside of lists
	item  int
	found []errs.Violation
}

// add adds a violation at a pointer, below the item that is checked.
func (c *eventCheck) add(pointer, detail string) {
	if c.list != "" {
		pointer = c.list + strconv.Itoa(c.item) + pointer
	}
	c.found = append(c.found, errs.At(pointer, detail))
}

// full reports whether no further violation would be shown.
func (c *eventCheck) full() bool { return len(c.found) >= httpapi.EnoughViolations }

// missing adds that a member is required.
func (c *eventCheck) missing(pointer string) { c.add(pointer, "is required") }

// text checks a text that must be there and not blank.
func (c *eventCheck) text(pointer string, value *string, limit int) string {
	switch {
	case value == nil:
		c.missing(pointer)
	case strings.TrimSpace(*value) == "":
		c.add(pointer, "must not be blank")
	case strings.ContainsRune(*value, 0):
		c.add(pointer, "must not contain the character NUL (\\u0000)")
	case utf8.RuneCountInString(*value) > limit:
		c.add(pointer, fmt.Sprintf("must have at most %d characters", limit))
	default:
		return *value
	}
	return ""
}

// count checks a whole number from 0 to the limit.
func (c *eventCheck) count(pointer string, value *int64, limit int64) int64 {
	switch {
	case value == nil:
		c.missing(pointer)
	case *value < 0 || *value > limit:
		c.add(pointer, fmt.Sprintf("must be an integer from 0 to %d", limit))
	default:
		return *value
	}
	return 0
}

// amount checks a number that is not negative.
func (c *eventCheck) amount(pointer string, value *float64) float64 {
	switch {
	case value == nil:
		c.missing(pointer)
	case !(*value >= 0) || math.IsInf(*value, 1):
		c.add(pointer, "must be a finite number of at least 0")
	default:
		return *value
	}
	return 0
}

// currency checks a code of three capital letters.
func (c *eventCheck) currency(pointer string, value *string) string {
	if value == nil {
		c.missing(pointer)
		return ""
	}
	code := *value
	if len(code) != 3 || strings.ContainsFunc(code, func(r rune) bool { return r < 'A' || r > 'Z' }) {
		c.add(pointer, "must be a currency code of three capital letters (ISO 4217)")
		return ""
	}
	return code
}

// day checks a date, YYYY-MM-DD.
func (c *eventCheck) day(pointer string, value *string) string {
	if value == nil {
		c.missing(pointer)
		return ""
	}
	if _, err := time.Parse(time.DateOnly, *value); err != nil {
		c.add(pointer, "must be a calendar day, YYYY-MM-DD")
		return ""
	}
	return *value
}

// moment checks a time of RFC 3339.
func (c *eventCheck) moment(pointer string, value *string) time.Time {
	if value == nil {
		c.missing(pointer)
		return time.Time{}
	}
	at, ok := httpapi.Moment(*value)
	if !ok {
		c.add(pointer, "must be a date-time of RFC 3339, years 1 to 9999")
		return time.Time{}
	}
	return at
}
