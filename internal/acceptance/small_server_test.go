package acceptance

import (
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

// smallServer is a server with 20 connections, three of which are its administrator's, and the address of a database on
// it.
func smallServer(t *testing.T, connections string) (server *cluster.Cluster, address string) {
	t.Helper()
	server, err := cluster.Start(false, "max_connections=20")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	administer(t, server, `CREATE ROLE hub LOGIN; GRANT ALL ON SCHEMA public TO hub`)
	u, err := url.Parse(databasetest.As(t, server.Address(), "hub"))
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set("pool_max_conns", connections)
	u.RawQuery = query.Encode()
	return server, u.String()
}

func administer(t *testing.T, server *cluster.Cluster, statements string) {
	t.Helper()
	script := filepath.Join(t.TempDir(), "admin.sql")
	if err := os.WriteFile(script, []byte(statements), 0o600); err != nil {
		t.Fatal(err)
	}
	databasetest.Script(t, server.Address(), script)
}

func TestSmallServer_delivers_everything_and_a_full_one_is_503(t *testing.T) {
	t.Parallel()
	if !inFull() {
		t.Skip("two servers of its own; run `make test-platforms`")
	}
	for name, connections := range map[string]string{
		"two apis and two workers of four connections": "4",
		"more connections wanted than there are":       "24",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, address := smallServer(t, connections)
			h, s := faultHub(t, apptest.Production, map[string]string{"DATABASE_URL": address})
			const callers, each = 32, 8
			var group sync.WaitGroup
			for caller := range callers {
				group.Go(func() {
					for range each {
						for id := nextID(); !taken(t, h, s, caller, id); {
							continue
						}
					}
				})
			}
			group.Wait()
			arrives := func(n int) {
				t.Helper()
				wait.Until(t, "all requests are estimated", func() bool {
					a := s.Do(t, http.MethodGet, requests+"?status=enqueued&limit=1", nil)
					return a.Status == http.StatusOK && len(apptest.Decode[listing](t, a).Data) == 0
				})
				if got := len(listAll(t, s, "&status=estimated")); got != n {
					t.Errorf("%d requests are estimated, want %d", got, n)
				}
			}
			arrives(callers * each)
			accounted(t, h) // a command gets its connections, too

			administer(t, server, `ALTER ROLE hub CONNECTION LIMIT 0;
				SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'hub'`)
			id := nextID()
			for api := range h.APIs {
				if taken(t, h, s, api, id) {
					t.Error("a request is accepted without a connection")
				}
			}
			administer(t, server, `ALTER ROLE hub CONNECTION LIMIT -1`)
			wait.Until(t, "requests are accepted again", func() bool { return taken(t, h, s, 0, id) })
			arrives(callers*each + 1)
		})
	}
}

// taken reports whether the request was accepted; otherwise it was put off, by 503 with Retry-After.
func taken(t *testing.T, h *apptest.Hub, s *apptest.Supplier, api int, id int64) bool {
	t.Helper()
	a, err := h.Try(t, h.URL(api, requests), http.MethodPost, request(id, nil), "Authorization", "Bearer "+s.AccessToken())
	if err != nil || a.Status != http.StatusCreated &&
		(a.Status != http.StatusServiceUnavailable || a.Header.Get("Retry-After") == "") {
		t.Errorf("%v, %d, Retry-After %q", err, a.Status, a.Header.Get("Retry-After"))
		return true
	}
	return a.Status == http.StatusCreated
}
