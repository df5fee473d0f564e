package acceptance

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// shared are the gauges of what all processes share: each shows the same.
var shared = []string{
	`supplyhub_database_up`, `supplyhub_requests{status="enqueued"}`, `supplyhub_requests{status="failed"}`,
	`supplyhub_oldest_enqueued_request_seconds`,
	`supplyhub_webhook_deliveries{status="pending"}`, `supplyhub_webhook_deliveries{status="dead"}`,
	`supplyhub_webhook_deliveries{status="failed"}`,
	`supplyhub_webhook_receivers{state="active"}`, `supplyhub_webhook_receivers{state="failing"}`,
	`supplyhub_webhook_receivers{state="paused"}`,
	`supplyhub_scoreboard_quota_remaining{requester="loop"}`,
	`supplyhub_scoreboard_quota_remaining{requester="partner_b"}`,
}

// counted are the series that are there from a process's start, so that their first increase is seen.
var counted = []string{
	`supplyhub_webhook_attempts_total{destination="own",outcome="delivered"}`,
	`supplyhub_webhook_attempts_total{destination="own",outcome="retry"}`,
	`supplyhub_webhook_attempts_total{destination="supplier",outcome="dead"}`,
	`supplyhub_webhook_attempts_total{destination="supplier",outcome="failed"}`,
	`supplyhub_scoreboard_provider_requests_total{outcome="ok",provider="sportmonks"}`,
	`supplyhub_scoreboard_provider_requests_total{outcome="rate_limited",provider="balldontlie"}`,
}

func TestMetrics_of_every_process_have_what_rules_and_dashboard_ask_for(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production,
		apptest.Options{APIs: 1, Workers: 1, LeastRights: true, Env: map[string]string{"PULSE_API_KEY": "key-of-a-test"}})
	s := h.Supplier(t)
	becomes(t, s, submit(t, s, nil), "estimated")
	want(t, h.Do(t, http.MethodPost, "/pulse/scoreboard?leagueId=0&partner=loop", nil, "svc-pulse-key", "key-of-a-test"),
		400)
	processes := slices.Concat(h.APIs, h.Workers)
	for _, p := range processes {
		apptest.Eventually(t, p.Name+" shows the shared gauges", func() bool {
			series := scrape(t, p)
			return !slices.ContainsFunc(shared, func(name string) bool { return series[name] == "" })
		})
		series := scrape(t, p)
		for _, name := range counted {
			if series[name] == "" {
				t.Errorf("%s shows no %s", p.Name, name)
			}
		}
	}
	for _, name := range shared {
		if first, other := scrape(t, processes[0])[name], scrape(t, processes[1])[name]; first != other {
			t.Errorf("%s is %s at one process and %s at the other", name, first, other)
		}
	}
	for name, fires := range alerts(t) {
		for _, p := range processes {
			if fires(scrape(t, p)) {
				t.Errorf("%s fires at %s of a healthy stack", name, p.Name)
			}
		}
	}
	known := map[string]bool{}
	for _, p := range processes {
		for name := range scrape(t, p) {
			name, _, _ = strings.Cut(name, "{")
			known[name] = true
		}
	}
	asked := askedMetrics(t, "prometheus/alerts.yaml", "prometheus/alerts_test.yaml", "grafana/supplyhub.json")
	for _, name := range asked {
		if !known[name] {
			t.Errorf("rules and dashboard ask for %s, which no process shows", name)
		}
	}
	if len(asked) < 10 {
		t.Errorf("only %d metrics were found in rules and dashboard: %v", len(asked), asked)
	}
}

// scrape is each series of a process's /metrics with its value as text.
func scrape(t *testing.T, p *apptest.Process) map[string]string {
	t.Helper()
	response, err := http.Get(p.AdminURL("/metrics"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	series := map[string]string{}
	for line := range strings.Lines(string(text)) {
		if at := strings.LastIndexByte(line, ' '); at > 0 && !strings.HasPrefix(line, "#") {
			series[line[:at]] = strings.TrimSpace(line[at+1:])
		}
	}
	return series
}

// askedMetrics are the names of metrics in the files of deployments/.
func askedMetrics(t *testing.T, files ...string) []string {
	t.Helper()
	metric := regexp.MustCompile(`\b((?:supplyhub|http|go|process)_[a-z_]+)\b`)
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(filepath.Join("..", "..", "deployments", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range metric.FindAllStringSubmatch(string(text), -1) {
			names = append(names, match[1])
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Two requests wait while no worker runs; a worker comes and none waits any more; its receiver's refusal is counted by
// all.
func TestMetrics_of_shared_state_follow_what_happens(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusBadRequest)
	})
	s := h.Supplier(t, "--webhook-url", receiver.URL)
	h.Workers[0].Stop()
	ids := []int64{submit(t, s, nil), submit(t, s, nil)}
	shows(t, h.APIs[0], `supplyhub_requests{status="enqueued"}`, "2")
	h.Workers[0].Restart()
	for _, id := range ids {
		becomes(t, s, id, "estimated")
	}
	for _, p := range slices.Concat(h.APIs, h.Workers) {
		shows(t, p, `supplyhub_requests{status="enqueued"}`, "0")
		shows(t, p, `supplyhub_oldest_enqueued_request_seconds`, "0")
		shows(t, p, `supplyhub_webhook_deliveries{status="failed"}`, "2")
		shows(t, p, `supplyhub_webhook_deliveries{status="pending"}`, "0")
	}
	shows(t, h.Workers[0], `supplyhub_webhook_attempts_total{destination="supplier",outcome="failed"}`, "2")
}

func shows(t *testing.T, p *apptest.Process, series, value string) {
	t.Helper()
	apptest.Eventually(t, p.Name+" shows "+series+" "+value, func() bool { return scrape(t, p)[series] == value })
}
