package app

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/supplyhub/supplyhub/internal/figures"
	"github.com/supplyhub/supplyhub/internal/sleep"
	"github.com/supplyhub/supplyhub/internal/telemetry"
)

// The figures of the console and of /metrics. A process counts its own work in its metrics; every ten seconds it adds
// that to its row in the database, from which the console sums all processes up. States of the database (how much
// waits, how much failed) are counted by one process for all of them, and each shows them as gauges.

// counters hands over the values of this process's counters, with their labels.
func (a *pipeline) counters(each func(counter string, labels map[string]string, n int64)) error {
	families, err := a.registry.Gather()
	if err != nil {
		return fmt.Errorf("gather metrics: %w", err)
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			each(f.GetName(), labels, int64(m.GetCounter().GetValue()))
		}
	}
	return nil
}

// did takes what this process did from its metrics, so that the console and they show the same.
func (a *pipeline) did() (did figures.Sample, err error) {
	err = a.counters(func(counter string, labels map[string]string, n int64) {
		switch {
		case counter == "http_requests_total" && labels["method"] == http.MethodPost &&
			labels["route"] == requestsRoute && labels["status"] == "201":
			did.Accepted += n
		case counter == "supplyhub_webhook_attempts_total" && labels["destination"] == "supplier" &&
			labels["outcome"] == "delivered":
			did.Delivered += n
		}
	})
	return did, err
}

// runFigures adds this process's figures to the database until ctx ends.
func (a *pipeline) runFigures(ctx context.Context, role string) error {
	itself := figures.Process{Role: role, Version: telemetry.Version(), Since: a.db.Now()}
	return a.every(ctx, figures.StepLength, "the figures of the console could not be kept",
		func(ctx context.Context) error { return a.figures.Record(ctx, itself) })
}

// providersAsked returns what the scoreboard's providers were asked by this process, by provider and outcome.
func (a *App) providersAsked() (map[string]map[string]int64, error) {
	asked := map[string]map[string]int64{}
	err := a.counters(func(counter string, labels map[string]string, n int64) {
		if counter != "supplyhub_scoreboard_provider_requests_total" {
			return
		}
		if asked[labels["provider"]] == nil {
			asked[labels["provider"]] = map[string]int64{}
		}
		asked[labels["provider"]][labels["outcome"]] = n
	})
	return asked, err
}

const gaugeTimeout = 4 * time.Second

// gauges are the figures of what all processes share. Each process reads them in the background, whether it is scraped
// or not, so that a scrape costs the database nothing. A figure that is not known is left out; an old one is never
// shown.
type gauges struct {
	database                               prometheus.Gauge
	requests, deliveries, receivers, quota *prometheus.GaugeVec
	oldest, oldestPending, backlog         *prometheus.GaugeVec // without a label: a vector can be emptied
}

// newGauges registers the gauges, which show nothing until something is known.
func newGauges(r prometheus.Registerer) *gauges {
	vector := func(name, help string, labels ...string) *prometheus.GaugeVec {
		return promauto.With(r).NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	return &gauges{
		database: promauto.With(r).NewGauge(prometheus.GaugeOpts{Name: "supplyhub_database_up",
			Help: "1 while the database answers this process."}),
		requests: vector("supplyhub_requests",
			"Material requests by status: those that wait for their estimates, and those that failed.", "status"),
		oldest: vector("supplyhub_oldest_enqueued_request_seconds",
			"How long the oldest request waits for its estimates; 0 when none does."),
		oldestPending: vector("supplyhub_oldest_pending_delivery_seconds",
			"How long the oldest delivery has waited that no worker has taken; 0 when there is none."),
		backlog: vector("supplyhub_backlog",
			"Estimations and webhook deliveries that are due and that workers can do, over all processes."),
		deliveries: vector("supplyhub_webhook_deliveries", "Webhook deliveries by status.", "status"),
		receivers:  vector("supplyhub_webhook_receivers", "Suppliers' receivers by state.", "state"),
		quota: vector("supplyhub_scoreboard_quota_remaining",
			"Scoreboard requests that a requester may still send today.", "requester"),
	}
}

// runGauges reads them until ctx ends.
func (a *pipeline) runGauges(ctx context.Context) error {
	g := newGauges(a.registry)
	promauto.With(a.registry).NewCounterFunc(prometheus.CounterOpts{Name: "supplyhub_database_clock_jumps_total",
		Help: "How often the database's clock was found more than a second away from where it should be."},
		func() float64 { return float64(a.db.ClockJumps()) })
	for failed := 0; ctx.Err() == nil; sleep.For(ctx, figures.LookEvery) {
		err := a.readGauges(ctx, g)
		if failed++; err == nil {
			failed = 0
		}
		if failed == 2 && ctx.Err() == nil { // said once; a first look may come while another process counts
			a.log.WarnContext(ctx, "gauges of shared state are left out", "error", err)
		}
	}
	return nil
}

// readGauges reads few rows, however much is stored. It returns why the shared state is not known.
func (a *pipeline) readGauges(ctx context.Context, g *gauges) error {
	ctx, cancel := context.WithTimeout(ctx, gaugeTimeout)
	defer cancel()
	up := 0.0
	if a.db.Ping(ctx) == nil {
		up = 1
	}
	g.database.Set(up)
	left, err := a.quotas.Remaining(ctx)
	show(g.quota, left, err)
	n, err := a.figures.Counts(ctx)
	show(g.requests, map[string]int64{"enqueued": n.Enqueued, "failed": n.FailedRequests}, err)
	show(g.deliveries, map[string]int64{"pending": n.Pending, "dead": n.Dead, "failed": n.Failed}, err)
	show(g.receivers, map[string]int64{"active": n.Active, "failing": n.Failing, "paused": n.Paused}, err)
	if err != nil {
		for _, unknown := range []*prometheus.GaugeVec{g.oldest, g.oldestPending, g.backlog} {
			unknown.Reset()
		}
		return err
	}
	g.oldest.WithLabelValues().Set(n.Oldest.Seconds())
	g.oldestPending.WithLabelValues().Set(n.OldestPending.Seconds())
	g.backlog.WithLabelValues().Set(float64(n.Backlog))
	return nil
}

// serveBacklog answers an autoscaler of workers, which keeps their number while the backlog is not known.
func (a *pipeline) serveBacklog(w http.ResponseWriter, _ *http.Request) {
	counts := a.figures.Newest()
	if counts.At.IsZero() {
		http.Error(w, "the backlog is not known", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = fmt.Fprintf(w, "{\"backlog\": %d}\n", counts.Backlog) // a caller that hung up does not matter
}

// show sets the vector's one label to what was read, or takes it away when that is not known.
func show(v *prometheus.GaugeVec, figures map[string]int64, err error) {
	if err != nil {
		v.Reset()
		return
	}
	for label, n := range figures {
		v.WithLabelValues(label).Set(float64(n))
	}
}

// Overview returns what the console's overview shows.
func (a *App) Overview(ctx context.Context) (figures.Overview, error) { return a.figures.Overview(ctx) }
