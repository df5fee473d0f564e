package acceptance

import (
	"context"
	"database/sql"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
)

// A host that is lost says nothing: its processes stop, or all of their connections are silent. The rows that they had
// locked stay locked until the server gives them up.

const (
	pulseEvery = 50 * time.Millisecond // between two requests of the healthy supplier
	pulseWaits = 2 * time.Second       // for an api's answer, before it asks the other one
	pulseOpen  = 20                    // requests at most that are not accepted yet, where the machine may be busy
	mostTries  = 500                   // to stop a process while it holds locks
	busyOthers = 2 * chaosCallers      // enough of them that each worker owns some
)

// lostFor returns how long a host is lost, and how often.
func lostFor() (away time.Duration, times int) {
	if inFull() {
		return 70 * time.Second, 6
	}
	return 8 * time.Second, 1
}

// pulse is a healthy supplier that sends 20 requests a second, and the longest time in which its receiver got nothing.
type pulse struct {
	load
	mu      sync.Mutex
	last    time.Time
	longest time.Duration
}

// startPulse sends requests until the test ends. Each is sent to one api and the other in turn until it is accepted.
func (c *chaos) startPulse() *pulse {
	c.t.Helper()
	ctx, stop := context.WithCancel(c.t.Context())
	p := &pulse{load: load{stop: stop}}
	receiver := httptest.NewServer(http.HandlerFunc(p.got))
	c.t.Cleanup(receiver.Close)
	supplier := c.hub.Supplier(c.t, "--access-ttl", "2h", "--webhook-url", receiver.URL)
	impatient := *c.hub
	impatient.HTTP = &http.Client{Timeout: pulseWaits}
	c.t.Cleanup(func() { stop(); p.group.Wait() })
	p.group.Go(func() {
		ticker := time.NewTicker(pulseEvery)
		defer ticker.Stop()
		for api := 0; ctx.Err() == nil; {
			<-ticker.C
			if !inFull() && int64(api)-p.accepted.Load() >= pulseOpen {
				continue // more of them would only make it slower
			}
			first, id := api, nextID()
			api++
			p.group.Go(func() {
				for attempt := first; ctx.Err() == nil && !post(c.t, &impatient, attempt, supplier, id); attempt++ {
					time.Sleep(retryPause)
				}
				p.accepted.Add(1)
			})
		}
	})
	return p
}

// got notes a call of the receiver.
func (p *pulse) got(_ http.ResponseWriter, r *http.Request) {
	_ = r.Body.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	p.longest, p.last = max(p.longest, now.Sub(p.last)), now
}

// begin begins to measure, and end returns the longest silence since then.
func (p *pulse) begin() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.longest, p.last = 0, time.Now()
}

func (p *pulse) end() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.longest, time.Since(p.last))
}

// busy is a load under which workers and apis are in transactions that lock what others need.
func (c *chaos) busy() (stop func()) {
	ctx, cancel := context.WithCancel(c.t.Context())
	flaky := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if rand.N(2) == 0 {
			w.WriteHeader(http.StatusInternalServerError)
		}
	}))
	var others [busyOthers]*apptest.Supplier
	for i := range others {
		others[i] = c.hub.Supplier(c.t, "--access-ttl", "2h", "--webhook-url", flaky.URL)
	}
	impatient := *c.hub
	impatient.HTTP = &http.Client{Timeout: pulseWaits}
	var group sync.WaitGroup
	for caller := range chaosCallers {
		group.Go(func() {
			for i := caller; ctx.Err() == nil; i++ {
				other := others[i%busyOthers]
				post(c.t, &impatient, i, other, nextID())
				for n := range 4 {
					body := object{"action": "upsert", "product": object{"sku": fmt.Sprint("SKU-", n), "material_id": 1,
						"material": fmt.Sprint("revision ", rand.Int64())}}
					_, _ = impatient.Try(c.t, impatient.URL(i, "/api/products/sync"), http.MethodPost, body,
						"Authorization", "Bearer "+other.AccessToken())
				}
				time.Sleep(chaosPause())
			}
		})
	}
	return func() {
		cancel()
		group.Wait()
		flaky.Close()
	}
}

// lost loses a process at random moments at which it holds locks.
func (c *chaos) lost(application string, gone, back func()) {
	c.t.Helper()
	defer c.busy()()
	db, err := sql.Open("pgx", c.postgres.Address())
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	away, times := lostFor()
	for range times {
		for try := 0; ; try++ {
			hold(rand.N(200 * time.Millisecond))
			gone()
			hold(50 * time.Millisecond) // its last statements end
			if holdsLocks(c.t, db, application) {
				break
			}
			back()
			if try == mostTries {
				c.t.Errorf("%s never held a lock when it was lost", application)
				return
			}
		}
		hold(away)
		back()
		hold(2 * time.Second) // it is a part of the stack again
	}
}

// holdsLocks reports whether the process is in a transaction that has changed something.
func holdsLocks(t *testing.T, db *sql.DB, application string) (holds bool) {
	t.Helper()
	err := db.QueryRowContext(t.Context(), `SELECT EXISTS (SELECT FROM pg_stat_activity
		WHERE application_name = $1 AND state = 'idle in transaction' AND backend_xid IS NOT NULL)`, application).Scan(&holds)
	if err != nil {
		t.Error(err)
	}
	return holds
}

// lostHosts are the faults of a worker's and of an api's host.
func lostHosts() []fault {
	away, times := lostFor()
	took := fmt.Sprintf("%.0f s, %d times", away.Seconds(), times)
	return []fault{
		{"a worker's host lost: stopped " + took, true, func(c *chaos) { c.lostStopped("worker-0", c.hub.Workers[0]) }},
		{"a worker's host lost: silent " + took, true, func(c *chaos) {
			c.lostSilent("worker-0", append(c.hostNATS(c.workerNATS, 0), c.workerDatabase[0], c.toOwn[0]))
		}},
		{"an api's host lost: stopped " + took, true, func(c *chaos) { c.lostStopped("api-1", c.hub.APIs[1]) }},
		{"an api's host lost: silent " + took, true, func(c *chaos) {
			c.lostSilent("api-1", append(c.hostNATS(c.apiNATS, 1), c.apiDatabase[1]))
		}},
	}
}

// hostNATS returns one process's connections to the nodes.
func (c *chaos) hostNATS(all []*apptest.Proxy, process int) []*apptest.Proxy {
	n := len(c.nats.Nodes)
	return append([]*apptest.Proxy{}, all[process*n:(process+1)*n]...)
}

func (c *chaos) lostStopped(application string, p *apptest.Process) {
	c.lost(application, func() { p.Signal(syscall.SIGSTOP) }, func() { p.Signal(syscall.SIGCONT) })
}

func (c *chaos) lostSilent(application string, connections []*apptest.Proxy) {
	c.lost(application, func() { each(connections, (*apptest.Proxy).Stall) },
		func() { each(connections, (*apptest.Proxy).Heal) })
}
