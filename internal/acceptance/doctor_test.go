package acceptance

import (
	"database/sql"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

type checkup struct {
	OK     bool `json:"ok"`
	Checks []struct{ Name, Status, Detail, Todo string }
}

// said returns the check whose name begins so.
func (c checkup) said(t *testing.T, name string) (status, detail, todo string) {
	t.Helper()
	for _, check := range c.Checks {
		if strings.HasPrefix(check.Name, name) {
			return check.Status, check.Detail, check.Todo
		}
	}
	t.Fatalf("the doctor says nothing of %s: %+v", name, c.Checks)
	return "", "", ""
}

// adminOf is the first api's operator listener.
func adminOf(h *apptest.Hub) string { return strings.TrimPrefix(h.APIs[0].AdminURL(""), "http://") }

// doctor runs the command of the binary in the hub's environment, changed as given, and holds the exit code to what it
// says.
func doctor(t *testing.T, h *apptest.Hub, binary string, change map[string]string) checkup {
	t.Helper()
	env := maps.Clone(h.Env)
	env["HTTP_ADDR"], env["ADMIN_ADDR"] = h.APIs[0].Address(), adminOf(h)
	if binary == "worker" {
		env["ESTIMATES_WEBHOOK_BASE_URL"] = h.BaseURL()
	}
	maps.Copy(env, change)
	var environ []string
	for name, value := range env {
		environ = append(environ, name+"="+value)
	}
	out, errOut, code := runIn(t, t.TempDir(), binary, environ, "doctor", "-o", "json")
	var found checkup
	if err := json.Unmarshal([]byte(out), &found); err != nil {
		t.Fatalf("%s doctor printed no JSON: %v: %s%s", binary, err, out, errOut)
	}
	broken := slices.ContainsFunc(found.Checks,
		func(c struct{ Name, Status, Detail, Todo string }) bool { return c.Status == "broken" })
	if found.OK == broken || (code == 0) == broken {
		t.Errorf("%s doctor: exit code %d, ok %v, broken %v", binary, code, found.OK, broken)
	}
	for _, c := range found.Checks {
		if (c.Status == "ok") != (c.Todo == "") {
			t.Errorf("%s is %s with the todo %q", c.Name, c.Status, c.Todo)
		}
	}
	return found
}

func TestDoctor_finds_a_running_service_well(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			binaries := []string{"api"}
			if stack == apptest.Production {
				binaries = append(binaries, "worker")
			}
			for _, binary := range binaries {
				found := doctor(t, h, binary, nil)
				for _, name := range []string{"configuration", "database", "database schema", "nats", "own endpoint", "receivers"} {
					if status, detail, _ := found.said(t, name); status != "ok" {
						t.Errorf("%s: %s is %s: %s", binary, name, status, detail)
					}
				}
				if !found.OK {
					t.Errorf("%s: %+v", binary, found)
				}
			}
			if out, _, code := h.Command(t, "doctor"); code == 0 || !strings.Contains(out, " -> ") {
				t.Errorf("without the api's addresses the text is, exit code %d:\n%s", code, out)
			}
		})
	}
}

func TestDoctor_names_each_thing_that_is_broken_in_production(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	stranger := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(stranger.Close)
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
	}))
	t.Cleanup(refusing.Close)
	limiting := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTooManyRequests)
	}))
	t.Cleanup(limiting.Close)
	newSecret := apptest.MustCommand[map[string]string](t, h, "secrets", "generate")["value"]
	tests := map[string]struct {
		binary, check, status, says string
		change                      map[string]string
	}{
		"a variable": {"api", "configuration", "broken", "WORKER_CONCURRENCY",
			map[string]string{"WORKER_CONCURRENCY": "none"}},
		"the database's host": {"worker", "database", "broken", "does not answer",
			map[string]string{"DATABASE_URL": "postgres://u:hidden@127.0.0.1:1/d"}},
		"a schema not made": {"worker", "database schema", "broken", "older",
			map[string]string{"DATABASE_URL": databasetest.EmptyPostgres(t)}},
		"NATS' host": {"worker", "nats", "broken", "not reached",
			map[string]string{"NATS_URL": "nats://u:hidden@127.0.0.1:1"}},
		"a stream not made": {"worker", "nats stream", "warning", "not there", map[string]string{"NATS_STREAM": "OTHER"}},
		"the endpoint's host": {"worker", "own endpoint", "broken", "does not answer",
			map[string]string{"ESTIMATES_WEBHOOK_BASE_URL": "http://127.0.0.1:1"}},
		"another endpoint": {"worker", "own endpoint", "broken", "404",
			map[string]string{"ESTIMATES_WEBHOOK_BASE_URL": stranger.URL}},
		"another secret": {"worker", "own endpoint", "broken", "refuses the signature",
			map[string]string{"WEBHOOK_SIGNING_SECRETS": newSecret}},
		"a provider's key": {"api", "provider sportmonks", "broken", "refuses the key",
			map[string]string{"SPORTMONKS_API_TOKEN": "hidden", "SPORTMONKS_BASE_URL": refusing.URL}},
		"a worker's provider": {"worker", "provider sportmonks", "broken", "refuses the key",
			map[string]string{"SPORTMONKS_API_TOKEN": "hidden", "SPORTMONKS_BASE_URL": refusing.URL}},
		"no provider's key": {"worker", "provider balldontlie", "ok", "no worker needs it",
			map[string]string{"PULSE_API_KEY": "hidden"}},
		"no scoreboard":           {"api", "scoreboard", "ok", "not configured", nil},
		"no scoreboard, a worker": {"worker", "scoreboard", "ok", "not configured", nil},
		"who runs":                {"api", "processes", "ok", "worker", nil},
		"a provider's limit": {"api", "provider balldontlie", "warning", "rate limit",
			map[string]string{"FALLBACK_API_KEY": "hidden", "BALLDONTLIE_BASE_URL": limiting.URL}},
		"a provider's address": {"api", "provider balldontlie", "broken", "call provider",
			map[string]string{"FALLBACK_API_KEY": "hidden", "BALLDONTLIE_BASE_URL": "http://127.0.0.1:1"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := doctor(t, h, test.binary, test.change)
			status, detail, _ := found.said(t, test.check)
			if status != test.status || !strings.Contains(detail, test.says) {
				t.Errorf("%s is %s: %s", test.check, status, detail)
			}
			for _, c := range found.Checks {
				if strings.Contains(c.Detail+c.Todo, "hidden") {
					t.Errorf("a password is shown: %s", c.Detail)
				}
			}
		})
	}
}

// A part that is not set up is one line without advice, and a stream of another installation has advice of its own.
func TestDoctor_gives_advice_that_fits_its_cause(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	other := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	status, detail, todo := doctor(t, h, "worker", map[string]string{"NATS_URL": other.Env["NATS_URL"]}).said(t,
		"nats stream")
	if status != "broken" || !strings.Contains(detail, "belongs to installation") ||
		!strings.Contains(todo, "another NATS_STREAM") || strings.Contains(todo, "permissions") {
		t.Errorf("another installation's stream is %s: %s -> %s", status, detail, todo)
	}
	failing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	t.Cleanup(failing.Close)
	if _, detail, todo := doctor(t, h, "worker", map[string]string{"ESTIMATES_WEBHOOK_BASE_URL": failing.URL}).said(t,
		"own endpoint"); strings.Contains(todo, "not the api") || !strings.Contains(todo, "/readyz") {
		t.Errorf("the own endpoint is unavailable: %s -> %s", detail, todo)
	}
	for _, binary := range []string{"api", "worker"} {
		for _, c := range doctor(t, h, binary, nil).Checks {
			if c.Status == "warning" && (strings.Contains(c.Name, "scoreboard") || strings.Contains(c.Name, "provider")) {
				t.Errorf("%s warns of a part that is not set up: %s: %s", binary, c.Name, c.Detail)
			}
		}
	}
	h.Workers[0].Stop()
	id := submit(t, h.Supplier(t), nil)
	db, err := sql.Open("pgx", h.Env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(t.Context(),
		`UPDATE material_requests SET created_at = created_at - 3600000000 WHERE id = $1`, id); err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the doctor misses the worker", func() bool {
		found := doctor(t, h, "api", nil)
		_, idle, todo := found.said(t, "processes")
		_, _, start := found.said(t, "waiting requests")
		return strings.Contains(idle, "no worker runs") && strings.Contains(todo, "start a worker") &&
			strings.HasPrefix(start, "start a worker;")
	})
	page := func(path string) string { return string(atConsole(t, h.APIs[0], path, nil).Body) }
	wait.Until(t, "the console says that no worker runs, and what waits", func() bool {
		body := page("/console")
		return strings.Contains(body, "No worker runs.") && strings.Contains(body, "waits for its estimates")
	})
	if look := click(t, h, "/console", "Look"); !strings.Contains(page(look), strconv.FormatInt(id, 10)) {
		t.Errorf("Look links to %s, which does not have request %d", look, id)
	}
}

func TestDoctor_names_missing_rights(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1, LeastRights: true})
	owner := h.Env["DATABASE_URL"]
	as := func(name string) map[string]string {
		return map[string]string{"DATABASE_URL": databasetest.As(t, owner, "supplyhub_"+name), "NATS_URL": h.NATS.URLOf(name)}
	}
	for _, name := range []string{"api", "worker"} {
		found := doctor(t, h, name, as(name))
		for _, check := range []string{"database rights", "nats messages"} {
			if status, detail, _ := found.said(t, check); status != "ok" {
				t.Errorf("%s with the rights of deployments/: %s is %s: %s", name, check, status, detail)
			}
		}
	}
	other := as("api")
	if status, detail, _ := doctor(t, h, "worker", other).said(t, "database rights"); status != "broken" ||
		!strings.Contains(detail, "INSERT ON webhook_events") {
		t.Errorf("a worker with the api's role: %s: %s", status, detail)
	}
	other = as("api")
	other["NATS_URL"] = h.NATS.URLOf("worker")
	if found := doctor(t, h, "api", other); found.OK {
		t.Errorf("an api with the worker's NATS user is well: %+v", found)
	}
}

func TestDoctor_warns_of_a_failing_receiver_and_names_an_unreadable_secret(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1,
				Env: map[string]string{"WEBHOOK_RETRY_SCHEDULE": "50ms,50ms,50ms,50ms,50ms,50ms,50ms"}})
			receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(http.StatusServiceUnavailable)
			})
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			name := "receiver of " + s.ID
			if status, detail, _ := doctor(t, h, "api", nil).said(t, name); status != "ok" || detail != "never called yet" {
				t.Errorf("a new receiver is %s: %s", status, detail)
			}
			submit(t, s, nil)
			var found checkup
			wait.Until(t, "the doctor warns of the receiver", func() bool {
				found = doctor(t, h, "api", nil)
				status, detail, _ := found.said(t, name)
				return status == "warning" && strings.Contains(detail, "failing") && strings.Contains(detail, "503")
			})
			if !found.OK {
				t.Errorf("a failing receiver makes the doctor say that something is broken: %+v", found)
			}
			other := apptest.MustCommand[map[string]string](t, h, "keys", "generate", "--secrets")["value"]
			if status, _, todo := doctor(t, h, "api", map[string]string{"SECRETS_KEY": other}).said(t,
				name); status != "broken" || !strings.Contains(todo, "SECRETS_KEY") {
				t.Errorf("with another SECRETS_KEY the receiver is %s: %s", status, todo)
			}
		})
	}
}

func TestDoctor_of_a_stopped_embedded_service_says_what_to_start(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Embedded, apptest.Options{})
	empty := doctor(t, h, "api", map[string]string{"DATA_DIR": filepath.Join(t.TempDir(), "none")})
	if status, _, todo := empty.said(t, "database"); status != "broken" || !strings.Contains(todo, "api serve") {
		t.Errorf("without a database: %s: %s", status, todo)
	}
	if _, err := os.Stat(h.Env["DATA_DIR"]); err != nil {
		t.Error(err)
	}
	address, admin := h.APIs[0].Address(), adminOf(h)
	h.APIs[0].Stop()
	stopped := doctor(t, h, "api", map[string]string{"HTTP_ADDR": address, "ADMIN_ADDR": admin})
	for _, name := range []string{"nats", "own endpoint"} {
		if status, _, todo := stopped.said(t, name); status != "broken" || !strings.Contains(todo, "start") {
			t.Errorf("%s of a stopped service is %s: %s", name, status, todo)
		}
	}
	if status, _, _ := stopped.said(t, "database schema"); status != "ok" {
		t.Errorf("the schema of a stopped service is %s", status)
	}
}
