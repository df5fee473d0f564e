// Package webhook is what a receiver of supplyhub's webhooks needs: the event as it travels, signing and verifying by
// the Standard Webhooks specification, and Handler, a whole receiver. It imports nothing of the service.
package webhook

import "time"

// The types of events that a supplier's receiver gets.
const (
	TypeEstimated = "material_request.estimated" // delivery estimates of a material request
	TypeTest      = "webhook.test"               // a test call that the supplier asked for; its data mean nothing
)

// Event is the body of a webhook call.
type Event struct {
	Type      string    `json:"type"`      // TypeEstimated
	Timestamp time.Time `json:"timestamp"` // when the estimates were computed, UTC
	Data      Data      `json:"data"`
}

// Data holds the delivery estimates of one material request.
type Data struct {
	SupplierID  string        `json:"supplier_id"`
	RequestID   int64         `json:"request_id"` // the supplier's own id of the request
	ShopCode    string        `json:"shop_code"`
	Estimates   []Estimate    `json:"estimates"`   // never null; empty when no service can deliver
	Unavailable []Unavailable `json:"unavailable"` // never null
}

// Estimate is one delivery service's offer. Dates are civil days, YYYY-MM-DD, in São Paulo.
type Estimate struct {
	EstimateID         string    `json:"estimate_id"`
	Service            string    `json:"service"`
	Carrier            string    `json:"carrier"`
	PriceCents         int64     `json:"price_cents"`
	Currency           string    `json:"currency"`       // ISO 4217, "BRL"
	LeadTimeDays       int       `json:"lead_time_days"` // business days from the request to the delivery
	DispatchDate       string    `json:"dispatch_date"`
	DeliveryDate       string    `json:"delivery_date"`
	ChargeableWeightKg float64   `json:"chargeable_weight_kg"`
	VolumeM3           float64   `json:"volume_m3"`
	ValidUntil         time.Time `json:"valid_until"`
}

// Unavailable is a delivery service that cannot take the request, and why.
type Unavailable struct {
	Service string `json:"service"`
	Reason  string `json:"reason"`
}
