package acceptance

import (
	"encoding/json"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

// guide returns the steps below a heading of a guide for operators.
func guide(t *testing.T, file, heading string, number int) []step {
	t.Helper()
	steps := stepsOf(chapter(t, repository("deployments", file), heading))
	if len(steps) != number {
		t.Fatalf("%s has %d steps below %q, not %d: %q", file, len(steps), heading, number, steps)
	}
	return steps
}

const viewsOfYourOwn = "<h2>For operators: views of your own</h2>"

// The view is made by the role that another system has, with the page's own SQL.
func TestDocuments_a_view_of_your_own_is_listed_by_the_lines_of_the_page(t *testing.T) {
	t.Parallel()
	blocks := page.FindAllStringSubmatch(chapter(t, "../httpapi/docs/trackers.html", viewsOfYourOwn), -1)
	if len(blocks) != 2 {
		t.Fatalf("the page has %d blocks", len(blocks))
	}
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1, LeastRights: true})
	other := newAnalyst(t, h, "fleet")
	execute(t, other.conn, `SET search_path = fleet`,
		`CREATE TABLE your_table AS SELECT 7 AS row_id, date '2026-11-20' AS load_day`, blocks[0][1])
	c := newTrackerClient(t, h)
	command := strings.Fields(strings.Replace(blocks[1][1], "ID", c.ID, 1))
	if _, stderr, code := h.Command(t, command[1:]...); code != 0 || strings.Contains(stderr, "note: ") {
		t.Fatalf("%q: exit code %d, %s", command, code, stderr)
	}
	if p, _ := c.page(t, trackers); p.Total != 1 {
		t.Errorf("the list has %d records", p.Total)
	}
}

func TestDocuments_a_supplier_sets_its_webhooks_up_by_the_lines_of_the_page(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	receiver := apptest.NewReceiver(t, func(_ int, w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	})
	key := regexp.MustCompile(`hub_sk_\w+`).FindString(n.printed)
	theirs := func(steps []step, more ...string) []step {
		replacer := strings.NewReplacer(append(more, "hub_sk_…", key, "https://hooks.example.com", receiver.URL)...)
		for i := range steps {
			steps[i].commands = replacer.Replace(steps[i].commands)
		}
		return steps
	}
	lines, _, _ := strings.Cut(chapter(t, "../httpapi/docs/webhooks.html", "<h1>"), `<h2 id="get">`)
	printed := strings.Split(n.walk(t, theirs(stepsOf(lines))), "\036")
	wants := []string{"", `"url":"` + receiver.URL, `"webhook_secret":"whsec_`, `"status":204`, `"data":[`,
		`"redelivered":0`, `"state":"active"`, n.url + "/portal/"}
	if len(printed) != len(wants)+1 {
		t.Fatalf("the page has %d commands, not %d", len(printed)-1, len(wants))
	}
	for i, want := range wants {
		if !strings.Contains(printed[i], want) {
			t.Errorf("command %d of the page prints no %s: %s", i+1, want, printed[i])
		}
	}

	lines, _, _ = strings.Cut(chapter(t, "../httpapi/docs/authentication.html", "<h1>"), "<h2>In Go, ")
	session := theirs(stepsOf(lines))
	if len(session) != 2 || session[0].output == "" {
		t.Fatalf("authentication.html has %q", session)
	}
	token := regexp.MustCompile(`eyJ[\w.-]+`).FindString(n.walk(t, session[:1]))
	if shown := n.walk(t, theirs(session[1:], "eyJ…", token)); !strings.Contains(shown, `"status":"ok"`) {
		t.Errorf("the ping prints %s", shown)
	}
}

func TestGuide_of_backups_restores_what_it_has_copied(t *testing.T) {
	t.Parallel()
	n := newNewcomer(t)
	steps := guide(t, "backup.md", "## Embedded", 2)
	for i := range steps {
		steps[i].commands = strings.ReplaceAll(steps[i].commands, "/backups/", n.dir+"/")
	}
	n.walk(t, steps[:1])
	n.stop()
	if shown := n.walk(t, steps[1:]); !strings.Contains(shown, "supplyhub.db") {
		t.Errorf("it does not say what was restored: %s", shown)
	}
	n.serve(t) // with the keys that were restored the demo supplier goes on
}

// dumped types the guide's commands for PostgreSQL on a server of the test's: first the dump, then, after between has
// run, the restore into a new database, whose address it returns.
func dumped(t *testing.T, server *cluster.Cluster, keys map[string]string, between func()) (address string) {
	t.Helper()
	n := built(t, "api")
	deployments, err := filepath.Abs(repository("deployments"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(deployments, filepath.Join(n.dir, "deployments")); err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(server.Address())
	if err != nil {
		t.Fatal(err)
	}
	address = strings.Replace(server.Address(), "/postgres?", "/supplyhub?", 1)
	env := []string{"PATH=" + filepath.Dir(server.Tool("pg_dump")) + ":" + os.Getenv("PATH"), "DATABASE_URL=" + address,
		"NATS_URL=nats://127.0.0.1:1", "PGHOST=" + u.Query().Get("host"), "PGPORT=" + u.Query().Get("port"),
		"PGUSER=" + u.User.Username()}
	for name, value := range keys {
		env = append(env, name+"="+value)
	}
	steps := guide(t, "backup.md", "## Production", 2)
	typeIn := func(owner string, s step) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), "sh", "-euc", s.commands)
		cmd.Dir, cmd.Env = n.dir, append(env, "OWNER_URL="+owner)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s\n--\n%s", err, s.commands, out)
		}
	}
	typeIn(server.Address(), steps[0])
	between()
	typeIn(address, steps[1])
	return address
}

// The keys are read from the file that the guide has written, by each process and by the command.
func TestGuide_of_production_by_hand_ends_with_a_supplier_and_its_estimates(t *testing.T) {
	t.Parallel()
	n := built(t, "api", "worker")
	steps := guide(t, "scaling.md", "**By hand**", 2)
	n.run(t, "set -eu\n"+strings.NewReplacer("postgres://…", databasetest.EmptyPostgres(t), "nats://…",
		queuetest.New(t).URL()).Replace(steps[0].commands), "sh")
	if info, err := os.Stat(filepath.Join(n.dir, "supplyhub.env")); err != nil || info.Mode().Perm() != 0o600 {
		t.Fatalf("%v, %v: others may read the keys", err, info)
	}
	address := freeAddress(t)
	n.url = "http://" + address
	lines := strings.Split(strings.ReplaceAll(steps[1].commands, "http://the-load-balancer", n.url), "\n")
	if len(lines) != 3 {
		t.Fatalf("%q", lines)
	}
	var logs lockedBuffer
	for _, line := range lines[:2] {
		terminal := exec.CommandContext(t.Context(), "sh", "-c", line)
		terminal.Dir, terminal.Stdout, terminal.Stderr = n.dir, &logs, &logs
		terminal.Env = []string{"PATH=" + os.Getenv("PATH"), "HTTP_ADDR=" + address, "ADMIN_ADDR=127.0.0.1:0"}
		terminal.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a terminal's Ctrl-C is for all that runs in it
		if err := terminal.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = syscall.Kill(-terminal.Process.Pid, syscall.SIGTERM)
			_ = terminal.Wait()
		})
	}
	wait.Until(t, "the api serves", func() bool {
		answer, err := http.Get(n.url + "/openapi.json")
		return err == nil && answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
	sample, err := filepath.Abs(repository("deployments", "samples", "material-request.json")) // its id is 1001
	if err != nil {
		t.Fatal(err)
	}
	shown := n.run(t, strings.NewReplacer("URL", n.url, "SAMPLE", sample, "COMMAND", lines[2]).Replace(`set -eu
COMMAND | tee made
TOKEN=$(curl -sf -X POST URL/api/external-auth/token -H "x-api-key: $(sed -n 's/^api_key *//p' made)" |
	sed 's/.*"AccessToken":"\([^"]*\)".*/\1/')
post() { curl -sf -H "Authorization: Bearer $TOKEN" -H 'Content-Type: application/json' "$@"; }
post URL/api/material-requests -d @SAMPLE
post URL/api/material-requests/1001?wait=60s
`), "sh")
	if !strings.Contains(shown, `"status":"estimated"`) {
		t.Errorf("%s\n%s", shown, logs.String())
	}
}

func TestGuide_shows_an_operator_event_with_the_members_that_are_sent(t *testing.T) {
	t.Parallel()
	shown := fence.FindStringSubmatch(chapter(t, repository("deployments", "operations.md"), "## Operator events"))
	if shown == nil {
		t.Fatal("operations.md shows no event")
	}
	decoder := json.NewDecoder(strings.NewReader(shown[2]))
	decoder.DisallowUnknownFields()
	var e operatorEvent
	if err := decoder.Decode(&e); err != nil || e.Type != "delivery.dead" || e.Timestamp.IsZero() ||
		e.Data.SupplierName == "" || len(e.Data.IDs) != 1 || e.Data.Count == 0 || e.Data.LastError == nil {
		t.Errorf("%v, %+v", err, e)
	}
}
