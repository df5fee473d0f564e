package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// load posts requests until stopped, retrying each one as a supplier does, and counts those answered 201.
type load struct {
	accepted atomic.Int64
	stop     context.CancelFunc
	group    sync.WaitGroup
}

// callersPause is a supplier's between two calls, and before it tries again: the tests of a machine share its cores,
// and faults show at any load.
const callersPause = 20 * time.Millisecond

func startLoad(t *testing.T, h *apptest.Hub, s *apptest.Supplier, callers int) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop}
	for caller := range callers {
		l.group.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(callersPause) {
				id := nextID()
				for attempt := caller; !post(t, h, attempt, s, id); attempt++ {
					time.Sleep(callersPause)
				}
				l.accepted.Add(1)
			}
		})
	}
	return l
}

// post reports whether the request was answered 201; a broken connection or a 5xx is tried again by the caller.
func post(t *testing.T, h *apptest.Hub, api int, s *apptest.Supplier, id int64) bool {
	a, err := h.Try(t, h.URL(api, requests), http.MethodPost, request(id, nil), "Authorization", "Bearer "+s.AccessToken())
	if err == nil && a.Status != http.StatusCreated && a.Status < 500 {
		t.Errorf("request %d: %d %s", id, a.Status, a.Body)
		return true
	}
	return err == nil && a.Status == http.StatusCreated
}

// reaches waits until n requests more were accepted.
func (l *load) reaches(t *testing.T, n int64) {
	t.Helper()
	end := l.accepted.Load() + n
	wait.Until(t, "the load goes on", func() bool { return l.accepted.Load() >= end })
}

// settle ends the load and waits until every accepted request is estimated.
func (l *load) settle(t *testing.T, s *apptest.Supplier) {
	t.Helper()
	l.stop()
	l.group.Wait()
	wait.Until(t, fmt.Sprintf("all %d accepted requests are estimated", l.accepted.Load()), func() bool {
		return len(list(t, s, "?status=enqueued&limit=1").Data)+len(list(t, s, "?status=failed&limit=1").Data) == 0
	})
	if n := int64(len(listAll(t, s, ""))); n != l.accepted.Load() {
		t.Fatalf("%d requests are stored, %d were accepted", n, l.accepted.Load())
	}
}

func faultHub(t *testing.T, stack apptest.Stack, env map[string]string) (*apptest.Hub, *apptest.Supplier) {
	t.Helper()
	base := map[string]string{"WEBHOOK_RETRY_SCHEDULE": strings.TrimSuffix(strings.Repeat("500ms,", 60), ","),
		"WEBHOOK_TIMEOUT": "2s"}
	for name, value := range env {
		base[name] = value
	}
	h := apptest.Start(t, stack, apptest.Options{Env: base})
	return h, h.Supplier(t)
}

func TestNothingAcceptedIsLost(t *testing.T) {
	t.Parallel()
	t.Run("when the embedded process is killed under load", func(t *testing.T) {
		t.Parallel()
		h, s := faultHub(t, apptest.Embedded, nil)
		l := startLoad(t, h, s, 8)
		for range 3 {
			l.reaches(t, 40)
			h.APIs[0].Kill()
			h.APIs[0].Restart()
		}
		l.reaches(t, 40)
		l.settle(t, s)
		accounted(t, h)
	})
	t.Run("when apis and workers are killed and the whole NATS store is wiped under load", func(t *testing.T) {
		t.Parallel()
		h, s := faultHub(t, apptest.Production, nil)
		l := startLoad(t, h, s, 8)
		for _, p := range []*apptest.Process{h.APIs[0], h.Workers[0], h.APIs[1], h.Workers[1]} {
			l.reaches(t, 40)
			p.Kill()
			l.reaches(t, 20)
			p.Restart()
		}
		l.reaches(t, 40)
		h.NATS.Wipe()
		l.reaches(t, 40)
		l.settle(t, s)
		accounted(t, h)
	})
	t.Run("when NATS is down: intake and work go on", func(t *testing.T) {
		t.Parallel()
		h := apptest.Start(t, apptest.Production,
			apptest.Options{LeastRights: true, Env: map[string]string{"WEBHOOK_TIMEOUT": "2s"}})
		s := h.Supplier(t)
		h.NATS.Stop()
		l := startLoad(t, h, s, 4)
		l.reaches(t, 60)
		l.settle(t, s)
		h.NATS.Restart()
		accounted(t, h)
		becomes(t, s, submit(t, s, nil), "estimated")
	})
	t.Run("when both workers stop and start again", func(t *testing.T) {
		t.Parallel()
		h, s := faultHub(t, apptest.Production, nil)
		l := startLoad(t, h, s, 4)
		for _, w := range h.Workers {
			l.reaches(t, 20)
			if code := w.Stop(); code != 0 {
				t.Errorf("the worker's exit code is %d", code)
			}
		}
		l.reaches(t, 20)
		for _, w := range h.Workers {
			w.Restart()
		}
		l.settle(t, s)
		accounted(t, h)
	})
}

// throughProxy returns a proxy to the hub's database and its address there.
func throughProxy(t *testing.T, h *apptest.Hub) (*apptest.Proxy, string) {
	t.Helper()
	database, err := url.Parse(h.Env["DATABASE_URL"])
	if err != nil {
		t.Fatal(err)
	}
	query := database.Query()
	// as libpq names it
	proxy := apptest.NewProxy(t, "unix", fmt.Sprintf("%s/.s.PGSQL.%s", query.Get("host"), query.Get("port")))
	query.Del("host")
	query.Del("port")
	database.Host, database.RawQuery = proxy.Address, query.Encode()
	return proxy, database.String()
}

func TestTheDatabaseBeingAway(t *testing.T) {
	t.Parallel()
	base := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1})
	var proxy *apptest.Proxy
	proxy, base.Env["DATABASE_URL"] = throughProxy(t, base)
	base.APIs = []*apptest.Process{base.Run("api", nil)}
	s := base.Supplier(t)
	used := s.RefreshToken()
	current := mustRefresh(t, base, used)
	proxy.Cut()
	for name, call := range map[string]func() apptest.Answer{
		"token":   func() apptest.Answer { return base.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", s.APIKey) },
		"refresh": func() apptest.Answer { return refresh(t, base, 0, current.RefreshToken) },
		"revoke": func() apptest.Answer {
			return base.Do(t, http.MethodPost, revokePath, object{"refreshToken": current.RefreshToken})
		},
		"intake":  func() apptest.Answer { return s.Do(t, http.MethodPost, requests, request(nextID(), nil)) },
		"reading": func() apptest.Answer { return s.Do(t, http.MethodGet, requestPath(1), nil) },
	} {
		a := call()
		wantProblem(t, a, http.StatusServiceUnavailable)
		if a.Header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", name)
		}
	}
	want(t, s.Do(t, http.MethodGet, ping, nil), http.StatusOK)
	proxy.Heal()
	wait.Until(t, "the api answers again", func() bool {
		return base.Do(t, http.MethodPost, tokenPath, nil, "x-api-key", s.APIKey).Status == http.StatusOK
	})
	becomes(t, s, submit(t, s, nil), "estimated")
}

// balancer is a load balancer as operators run one: it asks /readyz and passes a refused connection to the next
// backend.
func balancer(t *testing.T, h *apptest.Hub) *httptest.Server {
	t.Helper()
	var turn atomic.Int64
	proxy := &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(&url.URL{Scheme: "http", Host: "backend"}) },
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, err.Error(), http.StatusBadGateway)
		},
		Transport: &http.Transport{MaxIdleConnsPerHost: 64, DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				var all error
				first := int(turn.Add(1))
				for i := range len(h.APIs) * 2 {
					p := h.APIs[(first+i)%len(h.APIs)]
					if !ready(p) {
						continue
					}
					conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", p.Address())
					if err == nil {
						return conn, nil
					}
					all = errors.Join(all, err)
				}
				return nil, errors.Join(errors.New("no backend is ready"), all)
			}},
	}
	server := httptest.NewServer(proxy)
	t.Cleanup(server.Close)
	return server
}

func ready(p *apptest.Process) bool {
	response, err := http.Get(p.AdminURL("/readyz"))
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

func TestARollingRestartBehindALoadBalancerFailsNoRequest(t *testing.T) {
	t.Parallel()
	h, s := faultHub(t, apptest.Production, map[string]string{"DRAIN_DELAY": "200ms"})
	lb := balancer(t, h)
	ctx, stop := context.WithCancel(t.Context())
	var group sync.WaitGroup
	var accepted atomic.Int64
	for range 4 {
		group.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(callersPause) {
				a, err := h.Try(t, lb.URL+requests, http.MethodPost, request(nextID(), nil), "Authorization", "Bearer "+
					s.AccessToken())
				if err != nil || a.Status != http.StatusCreated {
					t.Errorf("a request failed: %v %d %s", err, a.Status, a.Body)
					return
				}
				accepted.Add(1)
			}
		})
	}
	l := &load{stop: stop}
	for _, p := range append(h.APIs, h.Workers...) {
		before := accepted.Load()
		wait.Until(t, "the load goes on", func() bool { return accepted.Load() >= before+50 })
		if code := p.Stop(); code != 0 {
			t.Errorf("%s: exit code %d after SIGTERM", p.Name, code)
		}
		p.Restart()
	}
	stop()
	group.Wait()
	l.accepted.Store(accepted.Load())
	l.settle(t, s)
}

// An operator's profile of 60 s and a call that never ends share the 30 s that SIGTERM grants.
func TestAWorkerThatIsStoppedEndsWellInTimeWhateverIsInFlight(t *testing.T) {
	t.Parallel()
	called := make(chan struct{}, 1)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // from then on it is noticed that the caller has gone
		select {
		case called <- struct{}{}:
		default:
		}
		<-r.Context().Done()
	}))
	t.Cleanup(receiver.Close)
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1,
		Env: map[string]string{"WEBHOOK_TIMEOUT": "60s"}})
	worker := h.Workers[0]
	profiled := make(chan error, 1)
	go func() {
		response, err := http.Get(worker.AdminURL("/debug/pprof/profile?seconds=60"))
		if err == nil {
			_, err = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		profiled <- err
	}()
	wait.Until(t, "the profile is being made", func() bool {
		_, stacks := adminGet(t, worker, "/debug/pprof/goroutine?debug=1")
		return strings.Contains(stacks, "pprof.Profile+")
	})
	submit(t, h.Supplier(t, "--webhook-url", receiver.URL), nil)
	<-called
	if code := worker.Stop(); code != 0 { // which fails after 35 s
		t.Errorf("exit code %d after SIGTERM:\n%s", code, worker.Log())
	}
	if err := <-profiled; err == nil {
		t.Error("the profile was made to its end: nothing was in flight")
	}
}

func TestAWorkerThatIsStoppedWhileItsDatabaseIsSilentEndsInTime(t *testing.T) {
	t.Parallel()
	called, answer := make(chan struct{}, 100), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		called <- struct{}{}
		<-answer
	}))
	t.Cleanup(receiver.Close)
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1,
		Env: map[string]string{"WEBHOOK_TIMEOUT": "60s"}})
	h.Workers[0].Stop()
	proxy, address := throughProxy(t, h)
	worker := h.Run("worker", map[string]string{"DATABASE_URL": address, "ESTIMATES_WEBHOOK_BASE_URL": h.BaseURL()})
	s := h.Supplier(t, "--webhook-url", receiver.URL)
	const n = 8
	for range n {
		submit(t, s, nil)
	}
	for range n {
		<-called
	}
	proxy.Stall()
	close(answer)
	worker.Stop() // which fails after 35 s
}

func TestMemory(t *testing.T) {
	t.Parallel()
	if os.Getenv("SUPPLYHUB_TEST_RACE") != "" {
		t.Skip("the race detector multiplies memory; the same test runs without it in `make test`")
	}
	// The memory that callers may take follows the container: this is one of 256 MiB.
	h, s := faultHub(t, apptest.Embedded, map[string]string{"GOMEMLIMIT": goMemory})
	idle := rss(t, h.APIs[0])
	t.Logf("idle at most %d MiB", idle)
	if idle > 80 {
		t.Errorf("the idle embedded process holds %d MiB, more than 80", idle)
	}
	items := make([]object, 500)
	for i := range items {
		items[i] = item(object{"material_id": i, "material": strings.Repeat("m", 250),
			"material_variant": strings.Repeat("v", 1500)})
	}
	together(64, func(i int) {
		for range 2 - i/36 { // a hundred of them, which a page below has
			body := request(nextID(), object{"materials": items})
			var a apptest.Answer
			wait.Until(t, "there is room for the large request, and time to read it", func() bool {
				var err error
				a, err = h.Try(t, h.URL(0, requests), http.MethodPost, body, "Authorization", "Bearer "+s.AccessToken())
				return err == nil && a.Status != http.StatusServiceUnavailable
			})
			want(t, a, http.StatusCreated)
		}
	})
	loaded := rss(t, h.APIs[0])
	t.Logf("under load at most %d MiB", loaded)
	if loaded > boxMemory {
		t.Errorf("under 64 connections with bodies of nearly 1 MiB the process holds %d MiB, more than %d", loaded, boxMemory)
	}
	together(4, func(int) {
		p := apptest.Decode[struct{ Data []record }](t, s.Do(t, http.MethodGet, requests+"?limit=100", nil))
		if len(p.Data) != 100 || p.Data[0].ID == p.Data[99].ID {
			t.Errorf("the page has %d requests", len(p.Data))
		}
	})
	listed := rss(t, h.APIs[0])
	t.Logf("listing 100 of them, four times at once: at most %d MiB", listed)
	if listed > boxMemory { // pages that are read whole take 1,900
		t.Errorf("while it lists 100 requests of nearly 1 MiB, four times at once, the process holds %d MiB, more than %d",
			listed, boxMemory)
	}
}

// rss is the process's resident memory in MiB, at its highest.
func rss(t *testing.T, p *apptest.Process) int {
	t.Helper()
	held := highest(p.PID())
	if held == 0 {
		t.Fatal("no VmHWM")
	}
	return held
}
