package app

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/supplyhub/supplyhub/internal/config"
)

// Figures are the console's overview; nil is a figure that no process shows.
type Figures struct {
	Accepted  *float64 `json:"accepted_per_second"` // since the figures before
	Delivered *float64 `json:"delivered_per_second"`
	Backlog   *float64 `json:"backlog"` // requests that wait for their estimates
	Oldest    *float64 `json:"oldest_waiting_seconds"`
	Dead      *float64 `json:"dead_deliveries"`
	Failing   *float64 `json:"failing_receivers"`
}

// Meter reads the figures of some processes from their operator listeners.
type Meter struct {
	addresses           []string
	at                  time.Time
	accepted, delivered float64
}

// NewMeter reads from the given listeners, or else from that of the api of this configuration. Each process counts what
// it does itself: the apis what is accepted, the workers what is delivered.
func NewMeter(cfg *config.Config, addresses ...string) *Meter {
	if len(addresses) == 0 {
		addresses = []string{cmp.Or(cfg.AdminAddr, defaultAPIAdmin)}
	}
	return &Meter{addresses: addresses}
}

// Read reads all listeners. The first call knows no rates.
func (m *Meter) Read(ctx context.Context) (f Figures, err error) {
	var accepted, delivered float64
	for _, address := range m.addresses {
		r, err := scrape(ctx, reachable(address))
		if err != nil {
			return Figures{}, err
		}
		accepted, delivered = accepted+r[seriesAccepted], delivered+r.delivered()
		// What all processes share is the same in each.
		f.Backlog, f.Oldest = cmp.Or(f.Backlog, r.shown(seriesBacklog)), cmp.Or(f.Oldest, r.shown(seriesOldest))
		f.Dead, f.Failing = cmp.Or(f.Dead, r.shown(seriesDead)), cmp.Or(f.Failing, r.shown(seriesFailing))
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
