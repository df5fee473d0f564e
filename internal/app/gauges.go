package app

import (
	"context"
	"errors"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/supplyhub/supplyhub/internal/figures"
)

const (
	gaugeInterval = 8 * time.Second // no figure is older than 10 s
	gaugeTimeout  = 4 * time.Second
)

// gauges are the figures of what all processes share. Each process reads them for itself, whether it is scraped or not,
// so that all show the same and a scrape costs the database nothing. What could not be read is left out, never an old
// figure.
type gauges struct {
	database                               prometheus.Gauge
	requests, deliveries, receivers, quota *prometheus.GaugeVec
	oldest                                 *prometheus.GaugeVec // of no label: a vector can be emptied
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
		deliveries: vector("supplyhub_webhook_deliveries", "Webhook deliveries by status.", "status"),
		receivers:  vector("supplyhub_webhook_receivers", "Suppliers' receivers by state.", "state"),
		quota: vector("supplyhub_scoreboard_quota_remaining",
			"Scoreboard requests that a requester may still send today.", "requester"),
	}
	r.MustRegister(g.database, g.requests, g.oldest, g.deliveries, g.receivers, g.quota)
	return g
}

// runGauges reads them until ctx ends.
func (a *pipeline) runGauges(ctx context.Context) error {
	g := newGauges(a.registry)
	a.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "supplyhub_database_clock_jumps_total",
		Help: "How often the database's clock was found more than a second away from where it should be."},
		func() float64 { return float64(a.db.ClockJumps()) }))
	for ctx.Err() == nil {
		a.readGauges(ctx, g)
		pause(ctx, gaugeInterval)
	}
	return nil
}

// readGauges reads everything by a few statements that cost the same however much is stored.
func (a *pipeline) readGauges(ctx context.Context, g *gauges) {
	ctx, cancel := context.WithTimeout(ctx, gaugeTimeout)
	defer cancel()
	up := 0.0
	if a.db.Ping(ctx) == nil {
		up = 1
	}
	g.database.Set(up)
	a.readPipeline(ctx, g)
	left, err := a.quotas.Remaining(ctx)
	show(g.quota, left, err)
}

// readPipeline reads what is on its way. A request waits until its own delivery is delivered.
func (a *pipeline) readPipeline(ctx context.Context, g *gauges) {
	n, err := figures.ReadCounts(ctx, a.db)
	show(g.requests, map[string]int64{"enqueued": n.Enqueued, "failed": n.FailedRequests}, err)
	show(g.deliveries, map[string]int64{"pending": n.Pending, "dead": n.Dead, "failed": n.Failed}, err)
	ill, illErr := a.Deliveries.IllReceivers(ctx)
	// The two are read one after the other: a receiver that is made or deleted in between is not counted below zero.
	active := max(n.Receivers-ill.Failing-ill.Paused, 0)
	show(g.receivers, map[string]int64{"active": active, "failing": ill.Failing, "paused": ill.Paused},
		errors.Join(err, illErr))
	a.readOldest(ctx, g)
}

func (a *pipeline) readOldest(ctx context.Context, g *gauges) {
	oldest, err := a.oldestWaiting(ctx)
	if err != nil {
		g.oldest.Reset()
		return
	}
	g.oldest.WithLabelValues().Set(oldest.Seconds())
}

// oldestWaiting returns how long the oldest request waits for its estimates.
func (a *pipeline) oldestWaiting(ctx context.Context) (time.Duration, error) {
	waiting, err := a.requests.WaitingSince(ctx)
	own, ownErr := a.Deliveries.OwnSince(ctx)
	if err := errors.Join(err, ownErr); err != nil {
		return 0, err
	}
	now := a.db.Now()
	return max(age(now, waiting), age(now, own)), nil
}

// age returns how long ago since was; the zero time is now.
func age(now, since time.Time) time.Duration {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since), 0)
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
