package app

import (
	"context"
	"slices"

	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/deliveries"
)

// Verification is the whole ledger: each request and each delivery is accounted for when OK is true.
type Verification struct {
	OK         bool                       `json:"ok"`
	Requests   map[materials.Status]int64 `json:"requests"`
	Deliveries map[deliveries.Status]int64  `json:"deliveries"`
	Faults     []string                   `json:"faults"` // at most a thousand of each kind; never nil
}

// Verify goes through everything that was ever accepted. It changes nothing and may run at any time. done is called with how much was checked so far.
func (a *App) Verify(ctx context.Context, done func(what string, n int64)) (Verification, error) {
	requests, err := a.requests.Verify(ctx, a.Deliveries.Underway, func(n int64) { done("requests", n) })
	if err != nil {
		return Verification{}, err
	}
	deliveries, err := a.Deliveries.Verify(ctx, func(n int64) { done("deliveries and events", n) })
	if err != nil {
		return Verification{}, err
	}
	faults := slices.Concat(requests.Faults, deliveries.Faults)
	return Verification{OK: len(faults) == 0, Requests: requests.Requests, Deliveries: deliveries.Deliveries,
		Faults: faults}, nil
}
