package queue

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"
)

// These metrics show the health of the queue from outside: dropped and failed messages are no loss, as workers find the
// work in the database, but many of them say that NATS is slow or away.

// metrics count what becomes of messages, on both sides.
type metrics struct {
	acked, dropped, failed prometheus.Counter
	received               prometheus.Counter
}

// newMetrics returns the metrics of the queue, which its registerer shows if it has one.
func newMetrics(q *Queue) *metrics {
	shown := promauto.With(q.cfg.Registerer)
	shown.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "supplyhub_queue_connected",
		Help: "1 while a NATS server is reached.",
	}, func() float64 { return oneIf(q.Connected()) })
	shown.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "supplyhub_queue_healthy",
		Help: "1 while messages can be published and read; otherwise /readyz says why, and work waits up to a second.",
	}, func() float64 { return oneIf(q.Health() == nil) })
	publishes := shown.NewCounterVec(prometheus.CounterOpts{
		Name: "supplyhub_queue_publishes_total",
		Help: "Messages published, by outcome: acked, dropped (not sent), failed (refused or unanswered).",
	}, []string{"outcome"})
	return &metrics{
		acked:   publishes.WithLabelValues("acked"),
		dropped: publishes.WithLabelValues("dropped"), failed: publishes.WithLabelValues("failed"),
		received: shown.NewCounter(prometheus.CounterOpts{
			Name: "supplyhub_queue_received_total",
			Help: "Messages that came to this worker.",
		}),
	}
}

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}
