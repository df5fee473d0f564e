package console

import (
	"context"
	"fmt"
	"html/template"
	"time"

	"github.com/supplyhub/supplyhub/internal/figures"
	"github.com/supplyhub/supplyhub/internal/web"
	"github.com/supplyhub/supplyhub/internal/webhooks"
)

const (
	mostNeedy = 10
	recently  = 6           // steps that a rate is the mean of
	tooLong   = time.Minute // for a request to wait for its estimates
)

// Figure is one number of the overview with its last hour.
type Figure struct {
	Name   string    `json:"name"`
	Value  *float64  `json:"value"` // null: it is not known now
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"` // one each ten seconds, the oldest first
}

type overviewView struct {
	At      time.Time     `json:"at"`
	Figures []Figure      `json:"figures"`
	Needs   []receiver    `json:"needs"` // receivers that fail or are paused, the first ten
	Failing int           `json:"failing"`
	Waiting time.Duration `json:"oldest_waiting_ns"`
	Dead    []deliveryRow `json:"dead"` // the newest five
}

// Stuck reports whether a request waits longer than it should.
func (v overviewView) Stuck() bool { return v.Waiting > tooLong }

// Oldest returns how long the oldest has waited, in milliseconds.
func (v overviewView) Oldest() int64 { return v.Waiting.Milliseconds() }

// overview returns what a glance should show.
func (s *Service) overview(ctx context.Context, _ query) (any, error) {
	now := s.deps.Live.Newest()
	states, err := s.deps.Deliveries.IllStates(ctx)
	if err != nil {
		return nil, err
	}
	needs := append([]receiver{}, illReceivers(states, "")...)
	failing := 0
	for _, r := range needs {
		if r.State == "failing" {
			failing++
		}
	}
	needs = needs[:min(len(needs), mostNeedy)]
	if err := s.describe(ctx, needs); err != nil {
		return nil, err
	}
	dead, _, err := s.deps.Deliveries.List(ctx, webhooks.Filter{Status: webhooks.Dead}, webhooks.Key{}, 5)
	if err != nil {
		return nil, err
	}
	now.Failing, now.Dead = int64(failing), max(now.Dead, int64(len(dead))) // what is counted may be older than these
	v := overviewView{At: s.deps.Now().UTC(), Figures: figuresOf(s.deps.Live.Hour(), now), Needs: needs, Failing: failing,
		Waiting: now.Oldest}
	if v.Dead, err = s.namedDeliveries(ctx, dead); err != nil {
		return nil, err
	}
	return v, nil
}

func figuresOf(hour []figures.Point, now figures.Counts) []Figure {
	series := func(of func(figures.Point) float64) []float64 {
		values := make([]float64, len(hour))
		for i, p := range hour {
			values[i] = of(p)
		}
		return values
	}
	known := func(v float64) *float64 {
		if now.At.IsZero() {
			return nil
		}
		return &v
	}
	accepted := series(func(p figures.Point) float64 { return p.Accepted })
	delivered := series(func(p figures.Point) float64 { return p.Delivered })
	return []Figure{
		{Name: "Accepted per second", Value: mean(accepted), Unit: "requests a second, the last minute", Values: accepted},
		{Name: "Delivered per second", Value: mean(delivered), Unit: "deliveries a second, the last minute",
			Values: delivered},
		{Name: "Backlog", Value: known(float64(now.Enqueued)), Unit: "requests wait for their estimates",
			Values: series(func(p figures.Point) float64 { return float64(p.Backlog) })},
		{Name: "Oldest waiting", Value: known(now.Oldest.Seconds()), Unit: "seconds",
			Values: series(func(p figures.Point) float64 { return p.Oldest.Seconds() })},
		{Name: "Dead deliveries", Value: known(float64(now.Dead)), Unit: "deliveries given up",
			Values: series(func(p figures.Point) float64 { return float64(p.Dead) })},
		{Name: "Failing receivers", Value: known(float64(now.Failing)), Unit: "receivers",
			Values: series(func(p figures.Point) float64 { return float64(p.Failing) })},
	}
}

// mean returns that of the last minute.
func mean(values []float64) *float64 {
	last, m := values[max(0, len(values)-recently):], 0.0
	for _, v := range last {
		m += v / float64(len(last))
	}
	return &m
}

// functions returns what the pages call in addition to those of package web.
func functions() template.FuncMap {
	return template.FuncMap{
		"line":  web.Line,
		"count": func(n int) int64 { return int64(n) },
		"peak":  maximum,
		"word":  wordOf,
	}
}

func maximum(values []float64) (m float64) {
	for _, v := range values {
		m = max(m, v)
	}
	return m
}

// wordOf returns a state as the pages write it, to be translated.
func wordOf(state any) string {
	words := map[string]string{
		"pending": "Pending", "delivered": "Delivered", "dead": "Dead", "failed": "Failed", "enqueued": "Enqueued",
		"estimated": "Estimated",
		"selected":  "Selected", "active": "Active", "failing": "Failing", "paused": "Paused", "true": "Active",
		"false": "Deactivated",
	}
	text := fmt.Sprint(state)
	if word := words[text]; word != "" {
		return word
	}
	return text
}
