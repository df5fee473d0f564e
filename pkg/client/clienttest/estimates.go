package clienttest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// HoldEstimates keeps requests enqueued from now on, until Estimate or Fail ends that for each of them.
func (s *Server) HoldEstimates() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held = true
}

// Estimate stores these estimates of an enqueued request, made-up ones when there are none and no product is
// deactivated, and calls the supplier's receiver. It panics when there is no such enqueued request.
func (s *Server) Estimate(id int64, estimates ...webhook.Estimate) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustBeEnqueued(id)
	s.estimate(context.Background(), s.requests[id], estimates)
}

// Fail lets an enqueued request fail for the reason. It panics when there is no such enqueued request.
func (s *Server) Fail(id int64, reason string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.mustBeEnqueued(id)
	s.requests[id].Failure = &reason
	s.requests[id].become("failed")
}

func (s *Server) mustBeEnqueued(id int64) {
	if r := s.requests[id]; r == nil || r.Status != "enqueued" {
		panic(fmt.Sprintf("clienttest: request %d is not enqueued", id))
	}
}

// estimateSoon estimates the request a moment later; it needs the lock.
func (s *Server) estimateSoon(ctx context.Context, r *request) {
	if s.held {
		return
	}
	round := r.round
	s.inBackground(ctx, func(ctx context.Context) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if r.round == round && r.Status == "enqueued" {
			s.estimate(ctx, r, nil)
		}
	})
}

// estimate stores the estimates and begins the delivery to the receiver; it needs the lock.
func (s *Server) estimate(ctx context.Context, r *request, estimates []webhook.Estimate) {
	if reason := s.inactiveProduct(r); reason != "" {
		r.Unavailable = []webhook.Unavailable{{Service: "road", Reason: reason}, {Service: "express", Reason: reason}}
	} else if estimates == nil {
		estimates = []webhook.Estimate{sample("road", 17_080, 6), sample("express", 25_000, 2)}
	}
	r.Estimates = append([]webhook.Estimate{}, estimates...)
	r.become("estimated")
	s.deliver(ctx, r)
}

func sample(service string, cents int64, days int) webhook.Estimate {
	now := time.Now().UTC()
	return webhook.Estimate{
		EstimateID: "est_" + strings.ToLower(rand.Text()), Service: service, Carrier: "Test carrier", PriceCents: cents,
		Currency:     "BRL",
		LeadTimeDays: days, DispatchDate: now.AddDate(0, 0, 1).Format(time.DateOnly),
		DeliveryDate:       now.AddDate(0, 0, days).Format(time.DateOnly),
		ChargeableWeightKg: 81, VolumeM3: 0.27, ValidUntil: now.AddDate(0, 0, 7),
	}
}

var currencyCode = regexp.MustCompile(`^[A-Z]{3}$`)

// estimateShape returns the shape of an estimate whose id none before it has.
func estimateShape(ids map[string]bool) shape {
	day := text("be a calendar day", isDay)
	of := map[string]shape{"estimate_id": name(), "service": name(), "carrier": name(), "price_cents": integer(0, 1<<53-1),
		"currency":       text("be a currency code", currencyCode.MatchString),
		"lead_time_days": integer(0, math.MaxInt32), "dispatch_date": day, "delivery_date": day,
		"chargeable_weight_kg": number(math.MaxFloat64), "volume_m3": number(math.MaxFloat64), "valid_until": moment()}
	single := members(strings.Join(slices.Collect(maps.Keys(of)), " "), of)
	return func(c *check, at string, value jsontext.Value) {
		single(c, at, value)
		var e webhook.Estimate
		_ = json.Unmarshal(value, &e) // what is of another type was named
		if strings.TrimSpace(e.EstimateID) != "" && ids[e.EstimateID] {
			c.at(at+"/estimate_id", "must not be the id of another estimate")
		}
		ids[e.EstimateID] = true
		if isDay(e.DispatchDate) && isDay(e.DeliveryDate) && e.DeliveryDate < e.DispatchDate {
			c.at(at+"/delivery_date", "must not be before dispatch_date")
		}
	}
}
