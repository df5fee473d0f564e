package scoreboard_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

func TestMetrics_count_what_each_provider_answered(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newRig(t, db, noon(), 0)
		answers := []error{nil, errors.New("broken"), &fetch.RateLimited{}}
		d.primary.board = func(context.Context) (scoreboard.Board, error) {
			return scoreboard.Board{}, answers[d.primary.calls.Load()-1]
		}
		for range answers {
			d.ask("?partner=loop")
		}
		want := "map[balldontlie/failed:0 balldontlie/ok:1 balldontlie/rate_limited:0 " +
			"sportmonks/failed:1 sportmonks/ok:1 sportmonks/rate_limited:1]"
		if got := fmt.Sprint(providerRequests(t, d)); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
		left, err := d.Remaining(t.Context())
		if got := fmt.Sprint(left); err != nil || got != "map[loop:77 partner_b:80]" {
			t.Errorf("remaining: %s, %v", got, err)
		}
	})
}

func providerRequests(t *testing.T, d *rig) map[string]float64 {
	t.Helper()
	families, err := d.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counted := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == "supplyhub_scoreboard_provider_requests_total" {
				counted[m.GetLabel()[1].GetValue()+"/"+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	return counted
}
