package acceptance

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// The versions before, by their commits: there is no tag yet.
const (
	versionBefore = "9bb4ffc"
	schemaBefore  = 14
	versionLast   = "8d9bc39" // schema 16, whose counts triggers keep
	versionOld    = "e4b0cad" // schema 7, with which nothing runs side by side
)

func release(t *testing.T, commit string) string {
	t.Helper()
	if os.Getenv("SUPPLYHUB_TEST_UPGRADE") == "" {
		t.Skip("builds and runs earlier versions; run `make test-upgrade` or `make test-platforms`")
	}
	return apptest.Release(t, commit)
}

// earlier is a service of an earlier version under load, whose supplier's receiver counts.
func earlier(t *testing.T, commit string) (*chaos, *clients) {
	t.Helper()
	h := apptest.Start(t, apptest.Production, apptest.Options{
		Release: release(t, commit),
		Env:     map[string]string{"WEBHOOK_RETRY_SCHEDULE": strings.TrimSuffix(strings.Repeat("1s,", 100), ",")},
	})
	receiver := newCountingReceiver(t)
	s := h.Supplier(t, "--access-ttl", "2h", "--webhook-url", receiver.url+"/estimates")
	receiver.expect(secret(t, s.WebhookSecret))
	c := &chaos{t: t, hub: h, supplier: s, receiver: receiver}
	l := c.startClients()
	l.reaches(t, 100)
	return c, l
}

// arrived waits until everything accepted is estimated and delivered, each under one id, and accounts for it.
func (c *chaos) arrived(t *testing.T, accepted map[int64]bool) {
	t.Helper()
	apptest.Eventually(t, "everything accepted is estimated and delivered", func() bool {
		return c.receiver.outcome(accepted).lost == 0 && c.estimated(accepted) == len(accepted)
	})
	o := c.receiver.outcome(accepted)
	if t.Log(o); o.twoIDs > 0 {
		t.Errorf("%d requests were delivered under two ids", o.twoIDs)
	}
	accounted(t, c.hub)
}

// stop stops a process as an operator does.
func stop(t *testing.T, p *apptest.Process) {
	t.Helper()
	if code := p.Stop(); code != 0 {
		t.Errorf("%s: exit code %d after SIGTERM", p.Name, code)
	}
}

func TestUpgrade_rolls_from_a_version_before_under_load(t *testing.T) {
	t.Parallel()
	for _, commit := range []string{versionBefore, versionLast} {
		t.Run(commit, func(t *testing.T) {
			t.Parallel()
			rolls(t, commit)
		})
	}
}

func rolls(t *testing.T, commit string) {
	t.Helper()
	c, l := earlier(t, commit)
	h := c.hub
	h.Release = ""
	if _, errOut, code := h.Command(t, "migrate"); code != 0 {
		t.Fatalf("migrate beside the version before: exit code %d: %s", code, errOut)
	}
	l.reaches(t, 200) // by the version before alone, on the new schema
	for _, p := range []*apptest.Process{h.APIs[1], h.Workers[1], h.Workers[0], h.APIs[0]} {
		stop(t, p)
		p.Restart()
		l.reaches(t, 200)
	}
	c.arrived(t, l.end())
	databasetest.CountsAgree(t, databasetest.OpenURL(t, h.Env["DATABASE_URL"], ""))
}

func TestUpgrade_with_a_stop_takes_an_old_version_s_work_along(t *testing.T) {
	t.Parallel()
	c, l := earlier(t, versionOld)
	h := c.hub
	for _, p := range h.Workers {
		p.Kill()
	}
	l.reaches(t, 100)
	accepted := l.end()
	for _, p := range h.APIs {
		stop(t, p)
	}
	h.Release = ""
	for _, p := range append(h.APIs, h.Workers...) {
		p.Restart()
	}
	l = c.startClients()
	l.reaches(t, 100)
	maps.Copy(accepted, l.end())
	c.arrived(t, accepted)
}

// upTo is the part of a migration that is applied.
func upTo(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	up, _, _ := strings.Cut(string(content), "-- +goose Down")
	return up +
		"\n; INSERT INTO goose_db_version (version_id, is_applied) SELECT max(version_id) + 1, true FROM goose_db_version;\n"
}

func TestUpgrade_version_before_serves_the_next_schema_and_refuses_a_later_one(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1, Release: release(t, versionBefore)})
	s := h.Supplier(t)
	files, err := filepath.Glob("../database/migrations/postgres/*.sql")
	if err != nil || len(files) <= schemaBefore {
		t.Fatalf("%d migrations, %v", len(files), err)
	}
	slices.Sort(files)
	script := filepath.Join(t.TempDir(), "up.sql")
	for i, file := range files[schemaBefore:min(len(files), schemaBefore+2)] {
		if err := os.WriteFile(script, []byte(upTo(t, file)), 0o600); err != nil {
			t.Fatal(err)
		}
		databasetest.Script(t, h.Env["DATABASE_URL"], script)
		becomes(t, s, submit(t, s, nil), "estimated") // by processes that know nothing of it
		if i == 0 {
			for _, p := range append(h.APIs, h.Workers...) {
				stop(t, p)
				p.Restart()
			}
			becomes(t, s, submit(t, s, nil), "estimated")
			continue
		}
		if _, errOut, code := h.Command(t, "serve"); code != 1 || !strings.Contains(errOut, "newer") {
			t.Errorf("serve two schemas ahead: exit code %d, %s", code, errOut)
		}
	}
}
