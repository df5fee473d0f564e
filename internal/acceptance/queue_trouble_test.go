package acceptance

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
)

// natsReadiness is what /readyz of a process answers.
func natsReadiness(t *testing.T, p *apptest.Process) (status int, body string) {
	t.Helper()
	return adminGet(t, p, "/readyz")
}

// adminGet is what the operator listener of a process answers.
func adminGet(t *testing.T, p *apptest.Process, path string) (status int, body string) {
	t.Helper()
	response, err := http.Get(p.AdminURL(path))
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
	if !inFull() {
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
	wait.Until(t, "the worker is not ready and says why", func() bool {
		status, body := natsReadiness(t, h.Workers[0])
		return status == http.StatusServiceUnavailable && strings.Contains(body, why)
	})
	wait.Until(t, "the api is degraded and says why", func() bool {
		status, body := natsReadiness(t, h.APIs[0])
		return status == http.StatusOK && strings.Contains(body, why)
	})
	for _, p := range append(h.APIs, h.Workers...) {
		wait.Until(t, p.Name+" warns", func() bool { return strings.Contains(p.Log(), why) })
	}
	id := submit(t, s, nil)
	nats.Nodes[1].Start(0)
	nats.Nodes[2].Start(0)
	becomes(t, s, id, "estimated")
}

// Each way in which the queue can be read and gives or takes nothing, made for real.
func TestQueue_that_can_be_read_but_not_used_delays_no_request(t *testing.T) {
	t.Parallel()
	r := newNATSRig(t)
	type trouble struct {
		name string
		make func()
		says string // in /readyz of the api and in the doctor; empty: it is put right, and the log says so
		log  string
		heal func()
	}
	nothing := func() {}
	for _, s := range []trouble{
		{"deleted consumers", r.deleteConsumers, "", "", nothing},
		{"an edited stream", func() {
			r.editStream(func(c *jetstream.StreamConfig) { c.MaxMsgs, c.Discard = 1, jetstream.DiscardNew })
		}, "", "not as it should be", nothing},
		{"a deleted stream", r.deleteStream, "", "", nothing},
		{"a stream of another hand", func() {
			r.replaceStream(jetstream.StreamConfig{Name: "MR", Subjects: []string{"mr.>"}})
		}, "made by another program", "made by another program", r.deleteStream},
		{"a sealed stream", func() {
			r.editStream(func(c *jetstream.StreamConfig) { c.Sealed = true })
		}, "is sealed", "is sealed", r.deleteStream},
		{"a stream of another installation", func() {
			r.replaceStream(jetstream.StreamConfig{Name: "MR", Subjects: []string{"mr.>"},
				Metadata: map[string]string{"supplyhub.installation": "another"}})
		}, "belongs to installation another", "belongs to installation another", r.deleteStream},
	} {
		ok := t.Run(s.name, func(t *testing.T) {
			r.t = t
			logged := map[*apptest.Process]int{}
			for _, p := range r.processes() {
				logged[p] = len(p.Log())
			}
			s.make()
			var left []int64
			for range 3 {
				left = append(left, submit(t, r.supplier, nil))
			}
			for _, id := range left {
				becomes(t, r.supplier, id, "estimated")
			}
			wait.Until(t, "the log says so", func() bool {
				submit(t, r.supplier, nil)
				for p, from := range logged {
					if strings.Contains(p.Log()[from:], s.log) {
						return true
					}
				}
				return false
			})
			if s.says != "" {
				r.saysEverywhere(t, s.says)
			}
			s.heal()
			wait.Until(t, "all is well again", func() bool {
				becomes(t, r.supplier, submit(t, r.supplier, nil), "estimated")
				return r.well()
			})
			for _, binary := range []string{"api", "worker"} {
				wait.Until(t, "the "+binary+"'s doctor finds it well", func() bool {
					return doctor(t, r.Hub, binary, nil).OK
				})
			}
		})
		if !ok {
			return
		}
	}
}

// saysEverywhere checks /readyz of the api, which is degraded, of the worker, which is not ready, and both doctors.
func (r *natsRig) saysEverywhere(t *testing.T, why string) {
	t.Helper()
	for status, p := range map[int]*apptest.Process{
		http.StatusOK: r.APIs[0], http.StatusServiceUnavailable: r.Workers[0]} {
		state := map[int]string{http.StatusOK: "degraded", http.StatusServiceUnavailable: "not ready"}[status]
		wait.Until(t, p.Name+" is "+state+" and says so", func() bool {
			got, body := natsReadiness(t, p)
			return got == status && strings.Contains(body, why) && strings.Contains(body, `"status":"`+state+`"`)
		})
	}
	for _, binary := range []string{"api", "worker"} {
		if status, detail, _ := doctor(t, r.Hub, binary, nil).said(t, "nats stream"); status != "broken" ||
			!strings.Contains(detail, why) {
			t.Errorf("the %s's doctor: the stream is %s: %s", binary, status, detail)
		}
	}
}

func TestQueue_whose_disk_is_full_delays_no_request(t *testing.T) {
	t.Parallel()
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("only root can make a small disk: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, syscall.MNT_DETACH) })
	server := queuetest.NewIn(t, filepath.Join(disk, "nats"))
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1,
		Env: map[string]string{"NATS_URL": server.URL(), "NATS_MAX_BYTES": "8388608"}})
	s := h.Supplier(t)
	becomes(t, s, submit(t, s, nil), "estimated")
	fill := filepath.Join(disk, "fill")
	if err := os.WriteFile(fill, make([]byte, 64<<20), 0o600); err == nil {
		t.Fatal("the disk has no end")
	}
	comment := strings.Repeat("x", 4000)
	const why = "takes no message"
	wait.Until(t, "the api is degraded and says why", func() bool {
		becomes(t, s, submit(t, s, object{"comment": comment}), "estimated")
		status, body := natsReadiness(t, h.APIs[0])
		return status == http.StatusOK && strings.Contains(body, why)
	})
	wait.Until(t, "the worker is ready and says that messages do not come", func() bool {
		becomes(t, s, submit(t, s, nil), "estimated")
		status, body := natsReadiness(t, h.Workers[0])
		return status == http.StatusOK && strings.Contains(body, "does not bring all messages")
	})
	for p, line := range map[*apptest.Process]string{h.APIs[0]: why, h.Workers[0]: "does not bring all messages"} {
		logged(t, p, line)
	}
	if status, detail, _ := doctor(t, h, "api", nil).said(t, "nats messages"); status != "broken" ||
		!strings.Contains(detail, why) {
		t.Errorf("the api's doctor: messages are %s: %s", status, detail)
	}
	if err := os.Remove(fill); err != nil {
		t.Fatal(err)
	}
	server.Restart()
	wait.Until(t, "all is well again", func() bool {
		becomes(t, s, submit(t, s, nil), "estimated")
		_, api := natsReadiness(t, h.APIs[0])
		_, worker := natsReadiness(t, h.Workers[0])
		return strings.Contains(api, `"nats":"ok"`) && strings.Contains(worker, `"nats":"ok"`)
	})
}

// Two installations that were given one account and one stream, as staging and production.
func TestQueue_of_another_installation_is_refused(t *testing.T) {
	t.Parallel()
	own, shared := queuetest.New(t), queuetest.New(t)
	first := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1,
		Env: map[string]string{"NATS_URL": shared.URL()}})
	other := apptest.NewProxy(t, "tcp", strings.TrimPrefix(shared.URL(), "nats://"))
	other.Cut()
	second := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1,
		Env: map[string]string{"NATS_URL": own.URL() + ",nats://" + other.Address}})
	other.Heal()
	own.Stop() // from here on the second has only the other one's queue
	r := &natsRig{Hub: second, t: t}
	r.saysEverywhere(t, "belongs to installation ")
	for _, h := range []*apptest.Hub{first, second} {
		s := h.Supplier(t)
		for range 5 {
			becomes(t, s, submit(t, s, nil), "estimated")
		}
	}
	for _, p := range append(first.APIs, first.Workers...) {
		if _, body := natsReadiness(t, p); !strings.Contains(body, `"nats":"ok"`) {
			t.Errorf("%s of the first: %s", p.Name, body)
		}
	}
}
