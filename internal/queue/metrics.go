package queue

import (
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// These counters show the health of the queue from outside: dropped and failed messages are no loss, as the sweeper
// queues them again, but many of them say that NATS is slow or away.

// metrics count what becomes of messages, on both sides.
type metrics struct {
	publishes, deliveries             *prometheus.CounterVec
	acked, duplicate, dropped, failed prometheus.Counter
	done, retried                     prometheus.Counter
}

// newMetrics returns metrics that are not shown yet.
func newMetrics() *metrics {
	publishes := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "supplyhub_queue_publishes_total",
		Help: "Messages published, by outcome: acked, duplicate (queued already), dropped (not sent), " +
			"failed (refused or unanswered).",
	}, []string{"outcome"})
	deliveries := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "supplyhub_queue_deliveries_total",
		Help: "Messages worked on, by outcome: done, retried.",
	}, []string{"outcome"})
	return &metrics{
		publishes: publishes, deliveries: deliveries,
		acked: publishes.WithLabelValues("acked"), duplicate: publishes.WithLabelValues("duplicate"),
		dropped: publishes.WithLabelValues("dropped"), failed: publishes.WithLabelValues("failed"),
		done: deliveries.WithLabelValues("done"), retried: deliveries.WithLabelValues("retried"),
	}
}

// register shows the metrics to r, which may be nil.
func (m *metrics) register(r prometheus.Registerer, connected func() bool, length func() float64) error {
	if r == nil {
		return nil
	}
	up := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "supplyhub_queue_connected",
		Help: "1 while a NATS server is reached.",
	}, func() float64 {
		if connected() {
			return 1
		}
		return 0
	})
	messages := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "supplyhub_queue_messages",
		Help: "Messages that wait or are being worked on, over all workers; NaN while no NATS server answers.",
	}, length)
	for _, c := range []prometheus.Collector{m.publishes, m.deliveries, up, messages} {
		if err := r.Register(c); err != nil {
			return fmt.Errorf("register metrics: %w", err)
		}
	}
	return nil
}
