package estimates

import (
	"cmp"
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// The computation is pure: the same request, card and moment give the same estimates, ids included. So a round that
// is estimated twice, by two workers or again after a crash, has one result, and it does not matter whose event is
// stored.

const (
	currency          = "BRL"
	longestProduction = 3650 // business days; beyond it a request cannot be promised
	cubicCentimetres  = 1e6  // in a cubic metre
	tenthsOfKg        = 10
	weightNoise       = 1e-6 // tenths of a kilogram: adding floating-point weights may put it on top
)

// load is what a request comes to, whatever the service.
type load struct {
	volumeM3, weightKg float64
	sideCm             float64 // the largest side of any piece
	productionDays     int
	inactive           string // an item whose product is not sold any more
}

// measure adds up what the service's price depends on, over all items.
func measure(items []Item) load {
	var l load
	for _, item := range items {
		n := float64(item.Quantity)
		l.volumeM3 += item.Width * item.Height * item.Depth / cubicCentimetres * n
		l.sideCm = max(l.sideCm, item.Width, item.Height, item.Depth)
		if item.Product == nil {
			continue
		}
		l.weightKg += item.Product.WeightKg * n
		l.productionDays = max(l.productionDays, item.Product.ProductionDays)
		if !item.Product.Active && l.inactive == "" {
			l.inactive = item.SKU
		}
	}
	return l
}

// compute does the whole computation and is pure: the services are those in force on the request's day.
func compute(r Request, services []Service, c *calendar) Result {
	l := measure(r.Items)
	when := c.dates(r.At, l.productionDays)
	result := Result{Estimates: make([]webhook.Estimate, 0, len(services))}
	for _, s := range services {
		if reason := refusal(l, s); reason != "" {
			result.Unavailable = append(result.Unavailable, webhook.Unavailable{Service: s.Name, Reason: reason})
			continue
		}
		result.Estimates = append(result.Estimates, estimate(r, l, s, c, when))
	}
	slices.SortFunc(result.Estimates, func(a, b webhook.Estimate) int {
		return cmp.Or(cmp.Compare(a.PriceCents, b.PriceCents), cmp.Compare(a.Service, b.Service))
	})
	slices.SortFunc(result.Unavailable, func(a, b webhook.Unavailable) int { return cmp.Compare(a.Service, b.Service) })
	return result
}

// refusal returns why the service cannot take the load, "" when it can.
func refusal(l load, s Service) string {
	charged := chargeable(l, s)
	switch {
	case l.inactive != "":
		return fmt.Sprintf("The product %s is not active.", l.inactive)
	case l.sideCm > s.MaxSideCm:
		return fmt.Sprintf("The largest side is %s cm, the service takes up to %s cm.", number(l.sideCm), number(s.MaxSideCm))
	case !(charged <= math.MaxInt32): // infinite too
		return "The weight is out of range."
	case charged > s.MaxWeightKg:
		return fmt.Sprintf("The chargeable weight is %s kg, the service takes up to %s kg.", number(charged),
			number(s.MaxWeightKg))
	case l.productionDays > longestProduction:
		return "The production takes too long."
	default:
		return ""
	}
}

// chargeable returns the larger of the real and the volumetric weight, rounded up to a tenth of a kilogram.
func chargeable(l load, s Service) float64 {
	kg := max(l.weightKg, l.volumeM3*s.CubageKgM3)
	return math.Ceil(kg*tenthsOfKg-weightNoise) / tenthsOfKg
}

// price returns cents: base plus weight, a begun cent counts whole, at least the minimum.
func price(s Service, kg float64) int64 {
	tenths := int64(math.Round(kg * tenthsOfKg))
	byWeight := (s.PerKgCents*tenths + tenthsOfKg - 1) / tenthsOfKg
	return max(s.MinimumCents, s.BaseCents+byWeight)
}

// estimate returns the offer of one service for the goods.
func estimate(r Request, l load, s Service, c *calendar, when dates) webhook.Estimate {
	kg := max(chargeable(l, s), 0)
	delivery := c.after(when.dispatch, s.TransitDays)
	return webhook.Estimate{
		EstimateID: estimateID(r, s), Service: s.Name, Carrier: s.Carrier,
		PriceCents: price(s, kg), Currency: currency, LeadTimeDays: c.between(when.made, delivery),
		DispatchDate: when.dispatch.Format(time.DateOnly), DeliveryDate: delivery.Format(time.DateOnly),
		ChargeableWeightKg: kg, VolumeM3: math.Round(l.volumeM3*cubicCentimetres) / cubicCentimetres,
		ValidUntil: when.validUntil,
	}
}

// estimateID returns the same whenever the same round of the same request is computed, and belongs to nothing else.
func estimateID(r Request, s Service) string {
	text := strconv.AppendQuote(nil, r.SupplierID)
	text = strconv.AppendInt(append(text, '/'), r.RequestID, 10)
	text = strconv.AppendInt(append(text, '/'), r.Round, 10)
	text = strconv.AppendInt(append(text, '/'), r.UID, 10)
	text = strconv.AppendQuote(append(text, '/'), s.Name)
	sum := sha256.Sum256(text)
	return "est_" + strings.ToLower(base32.StdEncoding.EncodeToString(sum[:15])) // 15 bytes need no padding
}

// number returns a size or weight as a person writes it.
func number(v float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", v), "0"), ".")
}
