package app

import (
	"context"
	"fmt"

	dto "github.com/prometheus/client_model/go"

	"github.com/supplyhub/supplyhub/internal/figures"
)

// series are the figures' metrics, by name and the values of the labels that matter.
const (
	seriesAccepted  = "http_requests_total POST " + requestsRoute + " 201"
	seriesDelivered = "supplyhub_webhook_attempts_total supplier delivered"
	seriesBacklog   = "supplyhub_requests enqueued"
	seriesWaiting   = "supplyhub_webhook_deliveries pending"
	seriesDead      = "supplyhub_webhook_deliveries dead"
	seriesOldest    = "supplyhub_oldest_enqueued_request_seconds"
	seriesFailing   = "supplyhub_webhook_receivers failing"
	seriesPaused    = "supplyhub_webhook_receivers paused"
)

// readings are the values of a process's series.
type readings map[string]float64

func readingsOf(families []*dto.MetricFamily) readings {
	values := readings{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			name, labels := f.GetName(), labelsOf(m)
			for _, label := range []string{"method", "route", "destination", "status", "outcome", "state"} {
				if labels[label] != "" {
					name += " " + labels[label]
				}
			}
			values[name] += m.GetCounter().GetValue() + m.GetGauge().GetValue() + m.GetUntyped().GetValue()
		}
	}
	return values
}

// shown returns a figure, or nil when the process does not show it.
func (r readings) shown(series string) *float64 {
	value, known := r[series]
	if !known {
		return nil
	}
	return &value
}

// did takes what this process did from its metrics, so that the console and they show the same.
func (a *pipeline) did() (figures.Sample, error) {
	families, err := a.registry.Gather()
	if err != nil {
		return figures.Sample{}, fmt.Errorf("gather metrics: %w", err)
	}
	r := readingsOf(families)
	return figures.Sample{Accepted: int64(r[seriesAccepted]), Delivered: int64(r[seriesDelivered])}, nil
}

func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

func (a *pipeline) runFigures(ctx context.Context, keep bool) error {
	return a.figures.Run(ctx, a.log, keep)
}

// consoleScores is what the console shows of the scoreboard.
type consoleScores struct{ app *App }

// Remaining returns what each requester may still ask today.
func (s consoleScores) Remaining(ctx context.Context) (map[string]int64, error) {
	return s.app.quotas.Remaining(ctx)
}

// Providers returns what the providers were asked by this process, by provider and outcome.
func (s consoleScores) Providers() (map[string]map[string]int64, error) {
	families, err := s.app.registry.Gather()
	if err != nil {
		return nil, fmt.Errorf("gather metrics: %w", err)
	}
	asked := map[string]map[string]int64{}
	for _, f := range families {
		if f.GetName() != "supplyhub_scoreboard_provider_requests_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			labels := labelsOf(m)
			if asked[labels["provider"]] == nil {
				asked[labels["provider"]] = map[string]int64{}
			}
			asked[labels["provider"]][labels["outcome"]] = int64(m.GetCounter().GetValue())
		}
	}
	return asked, nil
}
