package scoreboard

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promauto"

	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

// Metrics count what the providers are asked: each question costs the operator a part of what they grant.
type Metrics struct{ requests *prometheus.CounterVec }

// NewMetrics shows them to r, which may be nil. A provider's series are there from the start, in a process without
// providers too, so that their first increase is seen.
func NewMetrics(r prometheus.Registerer, providers ...string) *Metrics {
	m := &Metrics{requests: promauto.With(r).NewCounterVec(prometheus.CounterOpts{
		Name: "supplyhub_scoreboard_provider_requests_total",
		Help: "Questions put to a provider of matches, by what they came to: ok, rate_limited, failed.",
	}, []string{"provider", "outcome"})}
	for _, provider := range providers {
		for _, outcome := range []string{"ok", "rate_limited", "failed"} {
			m.requests.WithLabelValues(provider, outcome)
		}
	}
	return m
}

// asked counts a call of a provider by its outcome.
func (m *Metrics) asked(provider string, err error) {
	outcome := "ok"
	if _, limited := errors.AsType[*fetch.RateLimited](err); limited {
		outcome = "rate_limited"
	} else if err != nil {
		outcome = "failed"
	}
	m.requests.WithLabelValues(provider, outcome).Inc()
}

// Remaining returns what each requester may still ask today, without spending.
func (s *Quotas) Remaining(ctx context.Context) (map[string]int64, error) {
	left := map[string]int64{}
	for _, requester := range []string{requesterA, requesterB} {
		q, err := s.standing(ctx, requester)
		if err != nil {
			return nil, err
		}
		left[requester] = q.remaining()
	}
	return left, nil
}
