package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/figures"
)

const gaugeTimeout = 4 * time.Second

// gauges are the figures of what all processes share. Each process reads them in the background, whether it is scraped
// or not, so that a scrape costs the database nothing. What is not known is left out, never an old figure.
type gauges struct {
	database                               prometheus.Gauge
	requests, deliveries, receivers, quota *prometheus.GaugeVec
	oldest, oldestPending                  *prometheus.GaugeVec // of no label: a vector can be emptied
}

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
		deliveries: vector("supplyhub_webhook_deliveries", "Webhook deliveries by status.", "status"),
		receivers:  vector("supplyhub_webhook_receivers", "Suppliers' receivers by state.", "state"),
		quota: vector("supplyhub_scoreboard_quota_remaining",
			"Scoreboard requests that a requester may still send today.", "requester"),
	}
	r.MustRegister(g.database, g.requests, g.oldest, g.oldestPending, g.deliveries, g.receivers, g.quota)
	return g
}

// runGauges reads them until ctx ends.
func (a *pipeline) runGauges(ctx context.Context) error {
	g := newGauges(a.registry)
	a.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "supplyhub_database_clock_jumps_total",
		Help: "How often the database's clock was found more than a second away from where it should be."},
		func() float64 { return float64(a.db.ClockJumps()) }))
	for failed := 0; ctx.Err() == nil; pause(ctx, figures.LookEvery) {
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
		g.oldest.Reset()
		g.oldestPending.Reset()
		return err
	}
	g.oldest.WithLabelValues().Set(n.Oldest.Seconds())
	g.oldestPending.WithLabelValues().Set(n.OldestPending.Seconds())
	return nil
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
