package app

import (
	"context"
	"fmt"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/supplyhub/supplyhub/internal/figures"
)

// series are the figures' metrics, by name and the labels that matter.
const (
	seriesAccepted  = "http_requests_total POST " + requestsRoute + " 201"
	seriesDelivered = "supplyhub_webhook_attempts_total supplier delivered"
	seriesBacklog   = "supplyhub_requests enqueued"
	seriesDead      = "supplyhub_webhook_deliveries dead"
	seriesOldest    = "supplyhub_oldest_enqueued_request_seconds"
)

// sample takes the console's figures from the metrics of this process, so that both show the same.
func (a *pipeline) sample(ctx context.Context) (s figures.Sample, err error) {
	families, err := a.registry.Gather()
	if err != nil {
		return s, fmt.Errorf("gather metrics: %w", err)
	}
	values := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := labelsOf(m)
			for _, name := range []string{"method", "route", "destination", "status", "outcome"} {
				if labels[name] != "" {
					labels[""] += " " + labels[name]
				}
			}
			values[f.GetName()+labels[""]] += m.GetCounter().GetValue() + m.GetGauge().GetValue()
		}
	}
	s = figures.Sample{
		Accepted: int64(values[seriesAccepted]), Delivered: int64(values[seriesDelivered]), Backlog: int64(values[seriesBacklog]),
		Dead: int64(values[seriesDead]), Oldest: time.Duration(values[seriesOldest] * float64(time.Second)),
	}
	s.Failing, err = a.Deliveries.FailingReceivers(ctx)
	return s, err
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

// consoleLive is what the console plots.
type consoleLive struct {
	*figures.Recorder
	app *App
}

// Current returns the state that this process read last.
func (l consoleLive) Current(ctx context.Context) (figures.Sample, error) { return l.app.sample(ctx) }

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
