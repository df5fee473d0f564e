// Package checks_test holds the deployments against the libraries of the programs that will read them: Helm,
// Kubernetes, Prometheus and Compose. It is a module of its own, so that go.mod stays the product's.
package checks_test

import (
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/rulefmt"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/promql/promqltest"
	"github.com/prometheus/prometheus/rules"
	"go.yaml.in/yaml/v3"
)

const (
	alertsFile = "../prometheus/alerts.yaml"
	alertTests = "../prometheus/alerts_test.yaml"
)

// unitTests is the part of promtool's format that alerts_test.yaml uses.
type unitTests struct {
	Interval model.Duration `yaml:"evaluation_interval"`
	Tests    []unitTest     `yaml:"tests"`
}

type unitTest struct {
	Name     string         `yaml:"name"`
	Interval model.Duration `yaml:"interval"`
	Series   []struct {
		Series string `yaml:"series"`
		Values string `yaml:"values"`
	} `yaml:"input_series"`
	Alerts []struct {
		At       model.Duration `yaml:"eval_time"`
		Name     string         `yaml:"alertname"`
		Expected []struct {
			Labels      map[string]string `yaml:"exp_labels"`
			Annotations map[string]string `yaml:"exp_annotations"`
		} `yaml:"exp_alerts"`
	} `yaml:"alert_rule_test"`
}

func alerts(t *testing.T) []rulefmt.Rule {
	t.Helper()
	groups, errs := rulefmt.ParseFile(alertsFile, false, model.UTF8Validation, parser.NewParser(parser.Options{}),
		slog.New(slog.DiscardHandler))
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return groups.Groups[0].Rules
}

func alertCases(t *testing.T) unitTests {
	t.Helper()
	content, err := os.ReadFile(alertTests)
	if err != nil {
		t.Fatal(err)
	}
	var cases unitTests
	if err := yaml.Unmarshal(content, &cases); err != nil {
		t.Fatal(err)
	}
	return cases
}

func TestAlerts_fire_when_they_should_and_only_then(t *testing.T) {
	t.Parallel()
	cases := alertCases(t)
	for _, c := range cases.Tests {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			var load strings.Builder
			fmt.Fprintf(&load, "load %s\n", c.Interval)
			for _, s := range c.Series {
				fmt.Fprintf(&load, "  %s %s\n", s.Series, s.Values)
			}
			storage := promqltest.LoadedStorage(t, load.String())
			query := rules.EngineQueryFunc(promqltest.NewTestEngine(t, false, 0, promqltest.DefaultMaxSamplesPerQuery), storage)
			for _, rule := range alerts(t) {
				alert := alerting(t, rule)
				for at := time.Duration(0); at <= last(c); at += time.Duration(cases.Interval) {
					if _, err := alert.Eval(t.Context(), 0, time.Unix(0, 0).Add(at).UTC(), query, nil, 0); err != nil {
						t.Fatal(err)
					}
					for _, want := range c.Alerts {
						if want.Name == rule.Alert && time.Duration(want.At) == at {
							var expected []string
							for _, e := range want.Expected {
								expected = append(expected, labels.FromMap(e.Labels).String()+labels.FromMap(e.Annotations).String())
							}
							slices.Sort(expected)
							if got := firing(alert); !slices.Equal(got, expected) {
								t.Errorf("%s at %v: fires %v, want %v", rule.Alert, at, got, expected)
							}
						}
					}
				}
			}
		})
	}
}

func alerting(t *testing.T, rule rulefmt.Rule) *rules.AlertingRule {
	t.Helper()
	expr, err := parser.NewParser(parser.Options{}).ParseExpr(rule.Expr)
	if err != nil {
		t.Fatalf("%s: %v", rule.Alert, err)
	}
	return rules.NewAlertingRule(rule.Alert, expr, time.Duration(rule.For), 0, labels.FromMap(rule.Labels),
		labels.FromMap(rule.Annotations),
		labels.EmptyLabels(), "", true, slog.New(slog.DiscardHandler))
}

// last is when a test looks last.
func last(c unitTest) (at time.Duration) {
	for _, a := range c.Alerts {
		at = max(at, time.Duration(a.At))
	}
	return at
}

// firing are the labels of the alerts that fire, without the name, and what each says.
func firing(alert *rules.AlertingRule) []string {
	var list []string
	for _, a := range alert.ActiveAlerts() {
		if a.State == rules.StateFiring {
			list = append(list, labels.NewBuilder(a.Labels).Del("alertname").Labels().String()+a.Annotations.String())
		}
	}
	slices.Sort(list)
	return list
}

func TestAlerts_each_is_seen_firing_and_quiet_and_says_what_to_do(t *testing.T) {
	t.Parallel()
	fires, quiet := map[string]bool{}, map[string]bool{}
	for _, c := range alertCases(t).Tests {
		for _, a := range c.Alerts {
			if len(a.Expected) > 0 {
				fires[a.Name] = true
			} else {
				quiet[a.Name] = true
			}
		}
	}
	var names []string
	for _, rule := range alerts(t) {
		names = append(names, rule.Alert)
		if !fires[rule.Alert] || !quiet[rule.Alert] {
			t.Errorf("%s is not tested both ways: fires %t, quiet %t", rule.Alert, fires[rule.Alert], quiet[rule.Alert])
		}
		if rule.Labels["severity"] == "" || rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" {
			t.Errorf("%s lacks severity, summary or description", rule.Alert)
		}
	}
	for name := range maps.Keys(fires) {
		if !slices.Contains(names, name) {
			t.Errorf("%s tests %s, which is no rule", alertTests, name)
		}
	}
}
