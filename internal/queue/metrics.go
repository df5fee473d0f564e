package queue

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// These metrics show the health of the queue from outside: dropped and failed messages are no loss, as workers find the
// work in the database, but many of them say that NATS is slow or away.

// metrics count what becomes of messages, on both sides.
type metrics struct {
	publishes              *prometheus.CounterVec
	acked, dropped, failed prometheus.Counter
	received               prometheus.Counter
}

// newMetrics returns metrics that are not shown yet.
func newMetrics() *metrics {
	publishes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "supplyhub_queue_publishes_total",
		Help: "Messages published, by outcome: acked, dropped (not sent), failed (refused or unanswered).",
	}, []string{"outcome"})
	return &metrics{
		publishes: publishes, acked: publishes.WithLabelValues("acked"),
		dropped: publishes.WithLabelValues("dropped"), failed: publishes.WithLabelValues("failed"),
		received: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "supplyhub_queue_received_total",
			Help: "Messages that came to this worker.",
		}),
	}
}

// register shows the metrics of the queue to r, which may be nil.
func (m *metrics) register(r prometheus.Registerer, q *Queue) error {
	if r == nil {
		return nil
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "supplyhub_queue_connected",
		Help: "1 while a NATS server is reached.",
	}, func() float64 { return oneIf(q.Connected()) })
	healthy := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "supplyhub_queue_healthy",
		Help: "1 while messages can be published and read; otherwise /readyz says why, and work waits up to a second.",
	}, func() float64 { return oneIf(q.Health() == nil) })
	for _, c := range []prometheus.Collector{m.publishes, m.received, up, healthy} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
