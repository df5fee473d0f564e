package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/supplyhub/supplyhub/internal/config"
	"github.com/supplyhub/supplyhub/internal/figures"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// The figures of the console and of /metrics. A process counts its own work in its metrics; every ten seconds it adds
// that to its row in the database, from which the console sums all processes up. States of the database (how much
// waits, how much failed) are counted by one process for all of them, and each shows them as gauges.

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

// readingsOf adds the metrics up by the labels that the figures distinguish.
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

// labelsOf returns the labels of a metric, by name.
func labelsOf(m *dto.Metric) map[string]string {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

// runFigures adds this process's figures to the database until ctx ends; keep: it counts the gauges and trims as
// well.
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
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	}
	g := &gauges{
		database: prometheus.NewGauge(prometheus.GaugeOpts{Name: "supplyhub_database_up",
			Help: "1 while the database answers this process."}),
		requests: vector("supplyhub_requests",
			"Material requests by status: those that wait for their estimates, and those that failed.", "status"),
		oldest: vector("supplyhub_oldest_enqueued_request_seconds",
			"How long the oldest request waits for its estimates; 0 when none does."),
		oldestPending: vector("supplyhub_oldest_pending_delivery_seconds",
			"How long the oldest delivery has waited that is not taken yet; 0 when none does."),
		backlog: vector("supplyhub_backlog",
			"Estimations and webhook deliveries that are due and that workers can do, over all processes."),
		deliveries: vector("supplyhub_webhook_deliveries", "Webhook deliveries by status.", "status"),
		receivers:  vector("supplyhub_webhook_receivers", "Suppliers' receivers by state.", "state"),
		quota: vector("supplyhub_scoreboard_quota_remaining",
			"Scoreboard requests that a requester may still send today.", "requester"),
	}
	r.MustRegister(g.database, g.requests, g.oldest, g.oldestPending, g.backlog, g.deliveries, g.receivers, g.quota)
	return g
}

// runGauges reads them until ctx ends.
func (a *pipeline) runGauges(ctx context.Context) error {
	g := newGauges(a.registry)
	a.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "supplyhub_database_clock_jumps_total",
		Help: "How often the database's clock was found more than a second away from where it should be."},
		func() float64 { return float64(a.db.ClockJumps()) }))
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

// Figures are the console's overview; nil is a figure that no process shows.
type Figures struct {
	Accepted  *float64 `json:"accepted_per_second"` // since the figures before
	Delivered *float64 `json:"delivered_per_second"`
	Backlog   *float64 `json:"backlog"` // requests that wait for their estimates
	Oldest    *float64 `json:"oldest_waiting_seconds"`
	Waiting   *float64 `json:"waiting_deliveries"`
	Dead      *float64 `json:"dead_deliveries"`
	Failing   *float64 `json:"failing_receivers"`
	Paused    *float64 `json:"paused_receivers"`
}

// Meter reads the figures of some processes from their operator listeners.
type Meter struct {
	addresses           []string
	at                  time.Time
	accepted, delivered float64
}

// NewMeter reads from the given listeners, or else from that of the api of this configuration. Each process counts what
// it does itself: the apis what is accepted, the workers what is delivered to suppliers' receivers.
func NewMeter(cfg *config.Config, addresses ...string) *Meter {
	if len(addresses) == 0 {
		addresses = []string{cmp.Or(cfg.AdminAddr, defaultAPIAdmin)}
	}
	return &Meter{addresses: addresses}
}

// Addresses returns the listeners that are read.
func (m *Meter) Addresses() []string { return m.addresses }

// Read reads all listeners. The first call knows no rates.
func (m *Meter) Read(ctx context.Context) (f Figures, err error) {
	var accepted, delivered float64
	for _, address := range m.addresses {
		r, err := scrape(ctx, reachable(address))
		if err != nil {
			return Figures{}, err
		}
		accepted, delivered = accepted+r[seriesAccepted], delivered+r[seriesDelivered]
		// These are the same in each process.
		f.Backlog, f.Oldest = cmp.Or(f.Backlog, r.shown(seriesBacklog)), cmp.Or(f.Oldest, r.shown(seriesOldest))
		f.Waiting, f.Dead = cmp.Or(f.Waiting, r.shown(seriesWaiting)), cmp.Or(f.Dead, r.shown(seriesDead))
		f.Failing, f.Paused = cmp.Or(f.Failing, r.shown(seriesFailing)), cmp.Or(f.Paused, r.shown(seriesPaused))
	}
	now := time.Now()
	if seconds := now.Sub(m.at).Seconds(); !m.at.IsZero() {
		f.Accepted, f.Delivered = rate(accepted-m.accepted, seconds), rate(delivered-m.delivered, seconds)
	}
	m.at, m.accepted, m.delivered = now, accepted, delivered
	return f, nil
}

// rate returns 0 after a restart, which begins the counters again.
func rate(more, seconds float64) *float64 {
	r := max(more, 0) / seconds
	return &r
}

// scrape reads the metrics of one process.
func scrape(ctx context.Context, address string) (readings, error) {
	ctx, cancel := context.WithTimeout(ctx, healthTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // no proxy: it is an operator's listener
	response, err := client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("read metrics: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("read metrics of %s: status %d", address, response.StatusCode)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return nil, fmt.Errorf("read metrics of %s: %w", address, err)
	}
	return readingsOf(slices.Collect(maps.Values(families))), nil
}
