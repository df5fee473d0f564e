package acceptance

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// shared are the gauges of what all processes share: each shows the same.
var shared = []string{
	`supplyhub_database_up`, `supplyhub_requests{status="enqueued"}`, `supplyhub_requests{status="failed"}`,
	`supplyhub_oldest_enqueued_request_seconds`, `supplyhub_backlog`,
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
		wait.Until(t, p.Name+" shows the shared gauges", func() bool {
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
	sameIn(t, processes, shared...)
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
		w.WriteHeader(http.StatusGone)
	})
	suppliers := []*apptest.Supplier{h.Supplier(t, "--webhook-url", receiver.URL),
		h.Supplier(t, "--webhook-url", receiver.URL)}
	h.Workers[0].Stop()
	ids := []int64{submit(t, suppliers[0], nil), submit(t, suppliers[1], nil)}
	shows(t, h.APIs[0], `supplyhub_requests{status="enqueued"}`, "2")
	h.Workers[0].Restart()
	for i, id := range ids {
		becomes(t, suppliers[i], id, "estimated")
	}
	for _, p := range slices.Concat(h.APIs, h.Workers) {
		shows(t, p, `supplyhub_requests{status="enqueued"}`, "0")
		shows(t, p, `supplyhub_oldest_enqueued_request_seconds`, "0")
		shows(t, p, `supplyhub_webhook_deliveries{status="failed"}`, "2")
		shows(t, p, `supplyhub_webhook_receivers{state="paused"}`, "2")
		shows(t, p, `supplyhub_webhook_deliveries{status="pending"}`, "0")
	}
	shows(t, h.Workers[0], `supplyhub_webhook_attempts_total{destination="supplier",outcome="failed"}`, "2")
}

func shows(t *testing.T, p *apptest.Process, series, value string) {
	t.Helper()
	wait.Until(t, p.Name+" shows "+series+" "+value, func() bool { return scrape(t, p)[series] == value })
}

// sameIn waits until all processes show the same; one may look two seconds later than another.
func sameIn(t *testing.T, processes []*apptest.Process, names ...string) {
	t.Helper()
	wait.Until(t, "all processes show the same", func() bool {
		first := scrape(t, processes[0])
		return !slices.ContainsFunc(processes, func(p *apptest.Process) bool {
			other := scrape(t, p)
			return slices.ContainsFunc(names, func(name string) bool { return first[name] != other[name] })
		})
	})
}

// aGaugesAge is how old what is shown may be; the rest is for a test's own machine.
const aGaugesAge = 15*time.Second + 3*time.Second

// deadRows are so many deliveries that were given up.
func deadRows(n int) string {
	return fmt.Sprintf(`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status,
			attempts, series, next_attempt_at, created_at, updated_at)
		WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < %d)
		SELECT 'a' || n, n, 1, 'own', 'sup_a', n, 'dead', 1, 1, 1, 1, 1 FROM n`, n)
}

// One process counts for all, whichever: each is killed in turn but the last.
func TestMetrics_of_shared_state_are_exact_and_young_and_the_same_whichever_process_dies(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 2, Workers: 1, LeastRights: stack == apptest.Production})
			db := openDatabase(t, h)
			processes := slices.Concat(h.APIs, h.Workers)
			for _, step := range []struct{ change, dead string }{
				{deadRows(99_998), "99998"},
				{`UPDATE webhook_deliveries SET status = 'delivered' WHERE uid <= 99`, "99899"},
				{`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status, attempts,
					series, next_attempt_at, created_at, updated_at) SELECT 'b' || id, uid, round, destination, supplier_id,
					request_id, status, attempts, series, next_attempt_at, created_at, updated_at FROM webhook_deliveries
					WHERE status = 'dead' AND uid < 300`, "100000"},
				{`DELETE FROM webhook_deliveries WHERE uid > 5`, "0"},
			} {
				if _, err := db.ExecContext(t.Context(), step.change); err != nil {
					t.Fatal(err)
				}
				sinceChange := apptest.Stopwatch(t)
				for _, p := range processes {
					shows(t, p, `supplyhub_webhook_deliveries{status="dead"}`, step.dead)
				}
				if took := sinceChange(); took > aGaugesAge {
					t.Errorf("%d processes show %s after %s", len(processes), step.dead, took)
				}
				sameIn(t, processes, shared...)
				if len(processes) > 1 {
					processes[0].Kill()
					processes = processes[1:]
				}
			}
		})
	}
}

// An autoscaler of workers asks an api, also when there is no worker at all.
func TestBacklog_is_what_workers_could_do_and_sinks_to_0_when_they_do_it(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			backlog := func(n int) func() bool {
				return func() bool {
					status, body := adminGet(t, h.APIs[0], "/backlog")
					return status == http.StatusOK && body == fmt.Sprintf("{\"backlog\": %d}\n", n)
				}
			}
			wait.Until(t, "nothing is due", backlog(0))
			s := h.Supplier(t)
			if stack != apptest.Production {
				becomes(t, s, submit(t, s, nil), "estimated")
				wait.Until(t, "nothing is due again", backlog(0))
				return
			}
			h.Workers[0].Kill()
			for range 3 {
				submit(t, s, nil)
			}
			wait.Until(t, "three estimations are due", backlog(3))
			if series := scrape(t, h.APIs[0]); series["supplyhub_backlog"] != "3" {
				t.Errorf("/metrics shows %s", series["supplyhub_backlog"])
			}
			h.Workers[0].Restart()
			wait.Until(t, "all is done", backlog(0))
		})
	}
}

func TestMetrics_are_scraped_while_the_tables_are_locked(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	db := openDatabase(t, h)
	for _, p := range slices.Concat(h.APIs, h.Workers) {
		shows(t, p, shared[1], "0")
	}
	tx, err := db.BeginTx(t.Context(), nil)
	if err == nil {
		_, err = tx.ExecContext(t.Context(), `LOCK TABLE material_requests, webhook_deliveries, webhook_receivers, suppliers,
			gauges, figures IN ACCESS EXCLUSIVE MODE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	const most = time.Second / 2 // a scrape that waits for a table waits for all of lock_timeout, a second
	sinceBegin := apptest.Stopwatch(t)
	for range 20 {
		for _, p := range slices.Concat(h.APIs, h.Workers) {
			begin := sinceBegin()
			scrape(t, p)
			if took := sinceBegin() - begin; took > most {
				t.Errorf("a scrape of the %s took %s", p.Name, took)
			}
		}
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
}
