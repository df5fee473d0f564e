package acceptance

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

func TestSchema_is_migrated_by_serve_and_migrate_alone(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	h.Env["DATABASE_URL"] = databasetest.EmptyPostgres(t)
	next := filepath.Join(t.TempDir(), "next.sql")
	if err := os.WriteFile(next, []byte(`INSERT INTO schema_versions (version_id, is_applied)
		SELECT max(version_id) + 1, true FROM schema_versions`), 0o600); err != nil {
		t.Fatal(err)
	}
	refused := func(what, why string, args ...string) {
		t.Helper()
		if out, errOut, code := h.Command(t, args...); code != 1 || !strings.Contains(errOut, why) {
			t.Errorf("%s: exit code %d, printed %q and %q, want 1 and %q", what, code, out, errOut, why)
		}
	}
	refused("an empty database", "`api migrate`", "supplier", "list")
	if _, errOut, code := h.Command(t, "migrate"); code != 0 {
		t.Fatalf("migrate: exit code %d, %s", code, errOut)
	}
	if _, errOut, code := h.Command(t, "supplier", "list"); code != 0 {
		t.Fatalf("the schema of this build: exit code %d, %s", code, errOut)
	}
	databasetest.Script(t, h.Env["DATABASE_URL"], next)
	refused("the schema of the next version", "newer", "supplier", "list")
	logged(t, h.Run("api", nil), "the schema is the next version's")
	databasetest.Script(t, h.Env["DATABASE_URL"], next)
	refused("serve on a later schema", "newer", "serve")
	refused("migrate on a later schema", "newer", "migrate")
}

// failoverTime is within which everything is served again after the promotion.
const failoverTime = 10 * time.Second

func TestFailover_is_served_again_within_ten_seconds_and_nothing_accepted_is_lost(t *testing.T) {
	t.Parallel()
	if !inFull() {
		t.Skip("a minute of faults, with a bound on their time; run `make chaos` or `make test-platforms`")
	}
	for name, c := range map[string]struct {
		attrs string
		fault func(primary *cluster.Cluster) error
	}{
		"the primary dies":  {"any", func(p *cluster.Cluster) error { p.Crash(); return nil }},
		"the primary hangs": {"read-write", (*cluster.Cluster).Freeze},
		"the primary turns read-only": {"primary",
			func(p *cluster.Cluster) error { return p.Set("default_transaction_read_only", "on") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			failover(t, c.attrs, c.fault)
		})
	}
}

func failover(t *testing.T, attrs string, fault func(*cluster.Cluster) error) {
	t.Helper()
	primary, standby := pair(t)
	h, s := faultHub(t, apptest.Production, map[string]string{
		"DATABASE_URL": cluster.Together(primary, standby, "postgres", url.Values{"target_session_attrs": {attrs}}),
	})
	client, other := loaded(t, h), h.Supplier(t)
	l := startLoad(t, h, s, 4)
	l.reaches(t, 50)
	if err := fault(primary); err != nil {
		t.Fatal(err)
	}
	for _, p := range append(h.APIs, h.Workers...) {
		wait.Until(t, p.Name+" is not ready", func() bool { return !ready(p) })
	}
	if err := standby.Promote(); err != nil {
		t.Fatal(err)
	}
	sincePromotion := apptest.Stopwatch(t)
	served := func(what string, condition func() bool) {
		t.Helper()
		wait.Until(t, what, condition)
		if took := sincePromotion().Round(time.Millisecond); took > failoverTime {
			t.Errorf("%s: %v after the promotion", what, took)
		} else {
			t.Logf("%s: %v after the promotion", what, took)
		}
	}
	id := nextID()
	served("requests are accepted", func() bool { return post(t, h, 0, other, nextID()) && post(t, h, 1, other, id) })
	served("requests are estimated", func() bool { return read(t, other, id).Status == "estimated" })
	served("trackers are listed", func() bool {
		return h.Do(t, http.MethodGet, trackers, nil, "svc-public-hub-key", client).Status == http.StatusOK
	})
	for _, p := range append(h.APIs, h.Workers...) {
		served(p.Name+" is ready", func() bool { return ready(p) })
	}
	l.reaches(t, 50)
	l.settle(t, s)
	accounted(t, h)
}

// pair is a primary whose commits wait for its standby.
func pair(t *testing.T) (primary, standby *cluster.Cluster) {
	t.Helper()
	primary, err := cluster.Start(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(primary.Remove)
	if standby, err = primary.Standby(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Remove)
	return primary, standby
}

// loaded is the key of a tracker client with a view, which has no record yet.
func loaded(t *testing.T, h *apptest.Hub) (key string) {
	t.Helper()
	made := apptest.MustCommand[struct {
		ID     string `json:"id"`
		APIKey string `json:"api_key"`
	}](t, h, "tracker", "client", "create", "--name", "failover")
	file := filepath.Join(t.TempDir(), "records.ndjson")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, errOut, code := h.Command(t, "tracker", "load", file, "--client", made.ID); code != 0 {
		t.Fatalf("tracker load: %s", errOut)
	}
	return made.APIKey
}
