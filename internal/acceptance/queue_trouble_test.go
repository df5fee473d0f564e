package acceptance

import (
	"io"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

// natsReadiness is what /readyz of a process answers.
func natsReadiness(t *testing.T, p *apptest.Process) (status int, body string) {
	t.Helper()
	response, err := http.Get(p.AdminURL("/readyz"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(text)
}

func TestQueue_without_a_quorum_stops_workers_and_no_intake(t *testing.T) {
	t.Parallel()
	if os.Getenv("SUPPLYHUB_TEST_CHAOS") == "" {
		t.Skip("three NATS servers of its own; run `make test-platforms`")
	}
	nats := queuetest.NewCluster(t)
	urls := make([]string, len(nats.Nodes))
	for i, node := range nats.Nodes {
		urls[i] = "nats://" + node.Address()
	}
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{
		"NATS_URL": strings.Join(urls, ","), "NATS_REPLICAS": "3",
	}})
	s := h.Supplier(t)
	becomes(t, s, submit(t, s, nil), "estimated")
	nats.Nodes[1].Kill()
	nats.Nodes[2].Kill()
	why := "cluster may have no quorum"
	apptest.Eventually(t, "the worker is not ready and says why", func() bool {
		status, body := natsReadiness(t, h.Workers[0])
		return status == http.StatusServiceUnavailable && strings.Contains(body, why)
	})
	apptest.Eventually(t, "the api is degraded and says why", func() bool {
		status, body := natsReadiness(t, h.APIs[0])
		return status == http.StatusOK && strings.Contains(body, why)
	})
	for _, p := range append(h.APIs, h.Workers...) {
		apptest.Eventually(t, p.Name+" warns", func() bool { return strings.Contains(p.Log(), why) })
	}
	id := submit(t, s, nil)
	nats.Nodes[1].Start(0)
	nats.Nodes[2].Start(0)
	becomes(t, s, id, "estimated")
}
