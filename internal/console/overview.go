package console

import (
	"context"
	"html/template"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/figures"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/web"
)

const (
	mostNeedy = 10
	mostLost  = 5
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
	Stopped int           `json:"paused_by_service"`
	Pending int64         `json:"waiting"` // deliveries, as the figure has them
	Waiting time.Duration `json:"oldest_waiting_ns"`
	GivenUp []deliveryRow `json:"given_up"` // the newest five that are dead or failed

	Processes []figures.Process `json:"processes"`
}

// Stuck reports whether a request waits longer than it should.
func (v overviewView) Stuck() bool { return v.Waiting > tooLong }

// Idle reports whether no worker runs, as far as any process is known.
func (v overviewView) Idle() bool {
	return len(v.Processes) > 0 && !slices.ContainsFunc(v.Processes, figures.Process.Works)
}

// Ill reports whether a receiver keeps its supplier's deliveries waiting, unless its supplier or the operator wants
// that.
func (v overviewView) Ill() bool { return v.Failing+v.Stopped > 0 }

// Oldest returns how long the oldest has waited, in milliseconds.
func (v overviewView) Oldest() int64 { return v.Waiting.Milliseconds() }

// overview returns what a glance should show.
func (s *views) overview(ctx context.Context, _ query) (any, error) {
	now := s.deps.Live.Newest()
	states, err := s.deps.Receivers.IllStates(ctx)
	if err != nil {
		return nil, err
	}
	v := overviewView{At: s.deps.Now().UTC(), Needs: append([]receiver{}, illReceivers(states, "")...),
		Pending: now.Pending, Waiting: now.Oldest}
	paused := 0
	for _, r := range v.Needs {
		switch {
		case r.State == "failing":
			v.Failing++
		case r.PausedBy == receivers.PausedByService:
			v.Stopped++
			paused++
		default:
			paused++
		}
	}
	v.Needs = v.Needs[:min(len(v.Needs), mostNeedy)]
	if err := s.describe(ctx, v.Needs); err != nil {
		return nil, err
	}
	lost, dead, err := s.givenUp(ctx)
	if err != nil {
		return nil, err
	}
	// counts may be older than the rows that were just read
	now.Failing, now.Paused, now.Dead = int64(v.Failing), int64(paused), max(now.Dead, int64(dead))
	v.Figures = figuresOf(s.deps.Live.Hour(), now)
	if v.GivenUp, err = s.namedDeliveries(ctx, lost); err != nil {
		return nil, err
	}
	v.Processes, err = s.deps.Live.Processes(ctx)
	return v, err
}

// givenUp returns the newest deliveries that are dead or failed, and how many dead ones it has seen.
func (s *views) givenUp(ctx context.Context) (lost []deliveries.Delivery, dead int, err error) {
	for _, status := range []deliveries.Status{deliveries.Dead, deliveries.Failed} {
		page, _, err := s.deps.Deliveries.List(ctx, deliveries.Filter{Status: status}, deliveries.Key{}, mostLost)
		if err != nil {
			return nil, 0, err
		}
		if lost = append(lost, page...); status == deliveries.Dead {
			dead = len(page)
		}
	}
	slices.SortStableFunc(lost, func(a, b deliveries.Delivery) int { return b.UpdatedAt.Compare(a.UpdatedAt) })
	return lost[:min(len(lost), mostLost)], dead, nil
}

// figuresOf returns the figures: a rate's value is the mean of the last minute, that of a count is what is known now.
func figuresOf(hour []figures.Point, now figures.Counts) []Figure {
	rate := func(name, unit string, of func(figures.Point) float64) Figure {
		values := lists.Of(hour, of)
		return Figure{Name: name, Value: mean(values), Unit: unit, Values: values}
	}
	count := func(name, unit string, value float64, of func(figures.Point) float64) Figure {
		f := rate(name, unit, of)
		if f.Value = &value; now.At.IsZero() {
			f.Value = nil
		}
		return f
	}
	return []Figure{
		rate("Accepted per second", "requests, the last minute", func(p figures.Point) float64 { return p.Accepted }),
		rate("Delivered per second", "to receivers, the last minute", func(p figures.Point) float64 { return p.Delivered }),
		count("Backlog", "requests waiting for estimates", float64(now.Enqueued),
			func(p figures.Point) float64 { return float64(p.Backlog) }),
		count("Oldest waiting", "seconds", now.Oldest.Seconds(),
			func(p figures.Point) float64 { return p.Oldest.Seconds() }),
		count("Waiting deliveries", "deliveries not delivered yet", float64(now.Pending),
			func(p figures.Point) float64 { return float64(p.Waiting) }),
		count("Dead deliveries", "deliveries used up their retries", float64(now.Dead),
			func(p figures.Point) float64 { return float64(p.Dead) }),
		count("Failing receivers", "receivers are failing", float64(now.Failing),
			func(p figures.Point) float64 { return float64(p.Failing) }),
		count("Paused receivers", "receivers are paused", float64(now.Paused),
			func(p figures.Point) float64 { return float64(p.Paused) }),
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
		"exact": exact,
		"count": func(n int) int64 { return int64(n) },
		"peak":  func(values []float64) float64 { return slices.Max(append(values, 0)) },
	}
}
