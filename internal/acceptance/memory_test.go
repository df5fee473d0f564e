package acceptance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

const (
	boxMemory   = 256 // MiB of the container, as the chart's default
	goMemory    = "230MiB"
	longestPing = 20 * time.Second // the contract says one; the machine runs other tests too
	pingsFor    = 2 * time.Second
	pingEach    = 10 * time.Millisecond
)

// TestContainer attacks an api of the chart's size: one kind of attack after the other, each of as many connections as
// once ended the process, twice. Whatever strangers, one supplier or one tracker client do, the process lives, and
// another caller from another address is answered.
func TestContainer_of_256_MiB_is_shared_so_that_no_caller_ends_the_api_or_keeps_others_waiting(t *testing.T) {
	t.Parallel()
	if os.Getenv("SUPPLYHUB_TEST_RACE") != "" {
		t.Skip("the race detector multiplies memory; the same test runs without it in `make test`")
	}
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{"GOMEMLIMIT": goMemory}})
			a := &attack{Hub: h, greedy: h.Supplier(t), other: h.Supplier(t)}
			for range 4 {
				want(t, a.greedy.Do(t, http.MethodPost, requests, largeRequest()), http.StatusCreated)
			}
			manySockets.Lock()
			defer manySockets.Unlock()
			for _, process := range slices.Concat(h.APIs, h.Workers) {
				confine(t, process)
			}
			for _, kind := range []struct {
				name  string
				begin func(t *testing.T)
			}{
				{"unread lists", a.unreadLists}, {"pages of the portal", a.portalTabs},
				{"unread requests", a.unreadRequests}, {"unread tracker lists", a.unreadTrackers},
				{"impossible signatures", a.impossibleSignatures}, {"false signatures", a.falseSignatures},
				{"idle connections", a.idle}, {"small bodies", a.smallBodies}, {"long texts of products", a.longProducts},
			} {
				t.Run(kind.name, func(t *testing.T) {
					kind.begin(t)
					a.othersAreAnswered(t)
				})
			}
		})
	}
}

// attack is an api under attack: greedy attacks, other wants to be served.
type attack struct {
	*apptest.Hub
	greedy, other *apptest.Supplier
	answering     sync.WaitGroup // calls that no byte of an answer has come to
}

// largeRequest returns a request of almost a mebibyte.
func largeRequest() object {
	items := make([]object, 1000)
	for i := range items {
		text := fmt.Sprintf("%d %s", i, strings.Repeat(fmt.Sprintf("%x", i*i*i), 30))
		items[i] = item(object{"material_id": i + 1, "sku": fmt.Sprint("sku-", i), "material": text[:min(len(text), 250)],
			"material_variant": strings.Repeat(fmt.Sprint(i), 250)[:250]})
	}
	return request(nextID(), object{"materials": items})
}

// longProducts has one small request name products whose texts are as long as a body lets them be.
func (a *attack) longProducts(t *testing.T) {
	text, items := strings.Repeat("v", 1_000_000), make([]object, boxMemory)
	for i := range items {
		items[i] = item(object{"sku": fmt.Sprint("LONG-", i), "material_id": i + 1})
		want(t, a.greedy.Do(t, http.MethodPost, "/api/products/sync", object{"action": "upsert", "product": object{
			"sku": items[i]["sku"], "material_id": i + 1, "material": "Shelf", "material_variant": text}}), http.StatusOK)
	}
	becomes(t, a.greedy, submit(t, a.greedy, object{"materials": items}), "estimated")
	for _, worker := range a.Workers {
		if peak := rss(t, worker); peak > boxMemory {
			t.Errorf("the worker held %d MiB, more than %d", peak, boxMemory)
		}
	}
}

// confine puts the process into a memory cgroup of its own, of either version, where this user may make one.
func confine(t *testing.T, p *apptest.Process) {
	t.Helper()
	limit := "memory.max"
	root := "/sys/fs/cgroup"
	if _, err := os.Stat(filepath.Join(root, "memory", "memory.limit_in_bytes")); err == nil {
		root, limit = filepath.Join(root, "memory"), "memory.limit_in_bytes"
	}
	dir := filepath.Join(root, fmt.Sprintf("supplyhub-test-%d", p.PID()))
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Logf("no memory cgroup can be made: %v", err)
		return
	}
	t.Cleanup(func() { _ = os.Remove(dir) }) // it is busy until the process has ended, and an empty one costs nothing
	for file, text := range map[string]string{limit: fmt.Sprint(boxMemory << 20), "cgroup.procs": fmt.Sprint(p.PID())} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Logf("the memory cgroup cannot be used: %v", err)
			return
		}
	}
}

// othersAreAnswered pings for a while, with a connection of its own each time, until the attacker's calls are answered.
func (a *attack) othersAreAnswered(t *testing.T) {
	t.Helper()
	client := http.Client{Timeout: longestPing, Transport: &http.Transport{DisableKeepAlives: true}}
	var took []time.Duration
	each := time.NewTicker(pingEach)
	defer each.Stop()
	var done atomic.Bool
	go func() { a.answering.Wait(); done.Store(true) }()
	for end := time.Now().Add(pingsFor); time.Now().Before(end) || !done.Load(); <-each.C {
		begun := time.Now()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, a.URL(0, ping), nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+a.other.AccessToken())
		answer, err := client.Do(r)
		if err != nil {
			t.Fatalf("another caller is not answered: %v; the log ends with %s", err, tail(a.APIs[0].Log()))
		}
		_ = answer.Body.Close()
		if took = append(took, time.Since(begun)); answer.StatusCode != http.StatusOK {
			t.Errorf("another caller gets %s", answer.Status)
		}
	}
	slices.Sort(took)
	peak := rss(t, a.APIs[0])
	t.Logf("peak %d MiB; another caller's ping p50 %v, p99 %v", peak, took[len(took)/2], took[len(took)*99/100])
	if peak > boxMemory {
		t.Errorf("the api held %d MiB, more than %d", peak, boxMemory)
	}
}

func tail(log string) string { return log[max(0, len(log)-2000):] }

// open begins so many requests, each on a connection of its own, from the addresses in turn, at a listener. Those that
// are refused stay so.
func (a *attack) open(t *testing.T, listener string, n int, addresses []string, text string) (open []net.Conn) {
	t.Helper()
	var mu sync.Mutex
	var group sync.WaitGroup
	for first := range 16 {
		group.Go(func() {
			for i := first; i < n; i += 16 {
				dialer := net.Dialer{Timeout: time.Minute, LocalAddr: &net.TCPAddr{IP: net.ParseIP(addresses[i%len(addresses)])},
					Control: smallWindow}
				c, err := dialer.DialContext(t.Context(), "tcp", listener)
				if err != nil {
					t.Errorf("connection %d: %v", i, err)
					return
				}
				mu.Lock()
				open = append(open, c)
				mu.Unlock()
				_, _ = io.WriteString(c, text) // of a refused one nothing is taken
			}
		})
	}
	group.Wait()
	t.Cleanup(func() {
		for _, c := range open {
			_ = c.Close()
		}
	})
	return open
}

// smallWindow has an answer wait in the process that makes it, not in the kernel.
func smallWindow(_, _ string, c syscall.RawConn) (err error) {
	controlled := c.Control(func(fd uintptr) {
		err = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVBUF, 4096)
	})
	if controlled != nil {
		return controlled
	}
	return err
}

const attacker = "127.0.0.7"

// get begins n calls of whose answers the first byte is read.
func (a *attack) get(t *testing.T, n int, path, header string) {
	t.Helper()
	for _, c := range a.open(t, a.APIs[0].Address(), n, []string{attacker}, head("GET "+path, header)) {
		a.answering.Go(func() {
			_ = c.SetReadDeadline(time.Now().Add(time.Minute))
			_, _ = c.Read(make([]byte, 1))
		})
	}
}

func (a *attack) bearer() string { return "Authorization: Bearer " + a.greedy.AccessToken() }

func (a *attack) unreadLists(t *testing.T) { a.get(t, 240, requests+"?limit=100", a.bearer()) }

func (a *attack) portalTabs(t *testing.T) {
	cookie := "Cookie: " + signIn(t, a.greedy)
	id := apptest.Decode[listing](t, a.greedy.Do(t, http.MethodGet, requests+"?limit=1", nil)).Data[0].ID
	a.get(t, 16, "/portal/requests?limit=100", cookie)
	a.get(t, 16, fmt.Sprintf("/portal/requests/%d", id), cookie)
}

func (a *attack) unreadRequests(t *testing.T) {
	id := apptest.Decode[listing](t, a.greedy.Do(t, http.MethodGet, requests+"?limit=1", nil)).Data[0].ID
	a.get(t, 160, requestPath(id), a.bearer())
}

func (a *attack) unreadTrackers(t *testing.T) {
	c := newTrackerClient(t, a.Hub)
	records := make([]object, 100)
	for i := range records {
		records[i] = tracked(fmt.Sprint("device ", i, strings.Repeat("x", 200)), int64(i+1), "2026-11-20", "2026-11-20",
			"10:00:00")
	}
	c.load(t, records...)
	a.get(t, 400, trackers+"?pageSize=100", "svc-public-hub-key: "+c.APIKey)
	a.get(t, 400, snapshot+"?pageSize=100", "svc-public-hub-key: "+c.APIKey)
}

// strangers send all but the end of 64 KiB as an event, from eight addresses.
func (a *attack) strangers(t *testing.T, headers ...string) {
	t.Helper()
	addresses := make([]string, 8)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("127.0.1.%d", i+1)
	}
	text := head("POST "+estimatesPath(1), append(headers, "Content-Type: application/json", "Content-Length: 65536")...) +
		strings.Repeat(" ", 65535)
	a.open(t, a.APIs[0].Address(), 3000, addresses, text)
}

func (a *attack) impossibleSignatures(t *testing.T) { a.strangers(t, webhook.HeaderSignature+": x") }

func (a *attack) falseSignatures(t *testing.T) {
	now := time.Now()
	a.strangers(t, webhook.HeaderID+": msg_x", fmt.Sprintf("%s: %d", webhook.HeaderTimestamp, now.Unix()),
		webhook.HeaderSignature+": "+webhook.Sign("msg_x", now, nil, webhook.NewSecret()))
}

func (a *attack) idle(t *testing.T) {
	operator := strings.TrimPrefix(a.APIs[0].AdminURL(""), "http://")
	for _, listener := range []string{a.APIs[0].Address(), operator} {
		a.open(t, listener, 3000, []string{attacker}, "")
	}
	wait.Until(t, "the operator's listener answers another address", func() bool { // probes come from there
		ctx, cancel := context.WithTimeout(t.Context(), longestPing)
		defer cancel()
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, a.APIs[0].AdminURL("/livez"), nil)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			return false
		}
		return answer.Body.Close() == nil && answer.StatusCode == http.StatusOK
	})
}

// smallBodies sends the end of 3,400 bodies at once, each a list of empty objects.
func (a *attack) smallBodies(t *testing.T) {
	body := `{"materials":[{}` + strings.Repeat(",{}", 21_800) + `]}`
	conns := a.open(t, a.APIs[0].Address(), 3400, []string{attacker}, head("POST "+requests, a.bearer(),
		"Content-Type: application/json", fmt.Sprintf("Content-Length: %d", len(body)))+body[:len(body)-1])
	for _, c := range conns {
		_, _ = io.WriteString(c, "}")
	}
	answered := 0
	for _, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(time.Second))
		if answer, err := http.ReadResponse(bufio.NewReader(c), nil); err == nil {
			_ = answer.Body.Close()
			if answered++; answer.StatusCode != http.StatusBadRequest && answer.StatusCode != http.StatusServiceUnavailable {
				t.Fatalf("a body of empty objects: %s", answer.Status)
			}
		}
		if answered == 20 {
			return
		}
	}
	t.Errorf("%d of %d bodies were answered", answered, len(conns))
}
