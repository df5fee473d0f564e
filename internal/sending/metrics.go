package sending

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/supplyhub/supplyhub/internal/deliveries"
)

// metrics distinguish the own endpoint from suppliers, not the suppliers: their number has no bound.
type metrics struct {
	attempts *prometheus.CounterVec
	duration *prometheus.HistogramVec
	oldest   prometheus.Gauge
}

// newMetrics shows them to r, which may be nil.
func newMetrics(r prometheus.Registerer, inFlight func() int) *metrics {
	shown := promauto.With(r)
	m := &metrics{
		attempts: shown.NewCounterVec(prometheus.CounterOpts{
			Name: "supplyhub_webhook_attempts_total",
			Help: "Webhook attempts, by destination (own or supplier) and what they came to: " +
				"delivered, retry (tried again), dead, failed.",
		}, []string{"destination", "outcome"}),
		duration: shown.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "supplyhub_webhook_attempt_duration_seconds",
			Help:    "Time of a webhook attempt, by destination (own or supplier).",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30},
		}, []string{"destination"}),
		oldest: shown.NewGauge(prometheus.GaugeOpts{
			Name: "supplyhub_webhook_oldest_due_seconds", Help: "How long the longest-due webhook delivery has been due.",
		}),
	}
	// They are there from the start, so that the first increase is seen.
	for _, destination := range []string{deliveries.OwnEndpoint, "supplier"} {
		for _, outcome := range []deliveries.Status{deliveries.Delivered, deliveries.Pending, deliveries.Dead,
			deliveries.Failed} {
			m.attempts.WithLabelValues(destination, outcomeLabel(outcome))
		}
	}
	shown.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "supplyhub_webhook_attempts_in_flight", Help: "Webhook attempts in flight in this process.",
	}, func() float64 { return float64(inFlight()) })
	return m
}

// attempted counts an attempt when its answer is there; that its result is written down is not waited for.
func (m *metrics) attempted(destination string, status deliveries.Status, took time.Duration) {
	if destination != deliveries.OwnEndpoint {
		destination = "supplier"
	}
	m.attempts.WithLabelValues(destination, outcomeLabel(status)).Inc()
	m.duration.WithLabelValues(destination).Observe(took.Seconds())
}

// outcomeLabel returns what an attempt came to, as the contract names it: one that leaves its delivery pending is a
// retry.
func outcomeLabel(s deliveries.Status) string {
	if s == deliveries.Pending {
		return "retry"
	}
	return string(s)
}
