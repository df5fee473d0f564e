package checks_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

func TestDashboard_every_panel_asks_something_that_Prometheus_understands(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../grafana/supplyhub.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			GridPos struct{ X, Y, W, H int }
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(content, &dashboard); err != nil {
		t.Fatal(err)
	}
	ids, places := map[int]bool{}, map[[2]int]bool{}
	for _, p := range dashboard.Panels {
		place := [2]int{p.GridPos.X, p.GridPos.Y}
		if ids[p.ID] || places[place] || p.GridPos.X+p.GridPos.W > 24 {
			t.Errorf("panel %q has another one's id or place, or is too wide", p.Title)
		}
		ids[p.ID], places[place] = true, true
		if len(p.Targets) == 0 {
			t.Errorf("panel %q asks nothing", p.Title)
		}
		for _, target := range p.Targets {
			if _, err := parser.NewParser(parser.Options{}).ParseExpr(strings.ReplaceAll(target.Expr, "$__rate_interval",
				"1m")); err != nil {
				t.Errorf("panel %q: %v", p.Title, err)
			}
		}
	}
	if len(dashboard.Panels) < 10 {
		t.Errorf("the dashboard has only %d panels", len(dashboard.Panels))
	}
}
