package acceptance

import (
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
)

// fault breaks something and repairs it again; requests are sent all the time.
type fault struct {
	name  string
	short bool // in `make test` too
	run   func(*chaos)
}

const (
	outage      = 3 * time.Second
	beyondLease = 4 * time.Second // longer than the queue's AckWait and than a worker's lease
)

func faults() []fault {
	list := []fault{
		{"nothing", false, func(*chaos) { hold(outage) }},
		{"kill -9 of a worker", true, func(c *chaos) { killed(c.hub.Workers[0], time.Second) }},
		{"kill -9 of both workers", false, func(c *chaos) { killed(c.hub.Workers[0], 0); killed(c.hub.Workers[1], outage) }},
		{"kill -9 of each api in turn", false,
			func(c *chaos) { killed(c.hub.APIs[0], time.Second); killed(c.hub.APIs[1], time.Second) }},
		{"kill -9 of both apis at once", false, func(c *chaos) {
			c.hub.APIs[1].Kill()
			killed(c.hub.APIs[0], outage)
			c.hub.APIs[1].Restart()
		}},
		{"kill -9 of each NATS node in turn", false, func(c *chaos) {
			for i := range c.nats.Nodes {
				c.withoutNodes(outage, 0, i)
			}
		}},
		{"kill -9 of two NATS nodes at once", true, func(c *chaos) { c.withoutNodes(outage, 0, 0, 1) }},
		{"each NATS node silent in turn", false, func(c *chaos) {
			c.eachNode(func(i int) {
				c.nats.Nodes[i].Signal(syscall.SIGSTOP)
				hold(outage)
				c.nats.Nodes[i].Signal(syscall.SIGCONT)
			})
		}},
		{"the whole NATS store wiped", false, func(c *chaos) {
			c.eachNode(func(i int) { c.nats.Nodes[i].Kill(); c.nats.Nodes[i].Wipe() })
			c.eachNode(func(i int) { c.nats.Nodes[i].Start(0) })
		}},
		{"NATS with an empty store and no disk left", false, func(c *chaos) {
			c.eachNode(func(i int) { c.nats.Nodes[i].Kill(); c.nats.Nodes[i].Wipe() })
			c.eachNode(func(i int) { c.nats.Nodes[i].Start(1 << 20) })
			hold(outage)
			c.eachNode(func(i int) { c.nats.Nodes[i].Kill() })
			c.eachNode(func(i int) { c.nats.Nodes[i].Start(0) })
		}},
		{"the stream full", false, func(c *chaos) { c.fullStream(outage) }},
		{"the stream sealed, and deleted", false, (*chaos).sealedStream},
		{"the stream deleted, five times", false, func(c *chaos) {
			for range 5 {
				c.deletedStream()
				hold(outage / 5)
			}
		}},
		{"the consumers paused", false, (*chaos).pausedConsumers},
		{"one of ten COMMITs without an answer", false, func(c *chaos) {
			c.ends.start(true)
			hold(outage)
			c.ends.stop()
		}},
		{"one of ten COMMITs never made", false, func(c *chaos) {
			c.ends.start(false)
			hold(outage)
			c.ends.stop()
		}},
		{"the database's clock 10 minutes ahead, and back", false,
			func(c *chaos) { c.clock("10 minutes"); hold(2 * outage); c.clock("0"); hold(2 * outage) }},
		{"the database's clock 10 minutes back, and right again", false,
			func(c *chaos) { c.clock("-10 minutes"); hold(2 * outage); c.clock("0"); hold(2 * outage) }},
		{"PostgreSQL crashed", true, func(c *chaos) {
			c.postgres.Crash()
			hold(time.Second)
			if err := c.postgres.Restart(); err != nil {
				c.t.Fatal(err)
			}
		}},
		{"a worker stopped for longer than its leases", true, func(c *chaos) {
			c.hub.Workers[0].Signal(syscall.SIGSTOP)
			hold(beyondLease)
			c.hub.Workers[0].Signal(syscall.SIGCONT)
		}},
		{"a worker stopped at any moment, six times", false, func(c *chaos) {
			for i := range 6 { // between COMMIT and sending too
				worker := c.hub.Workers[i%2]
				worker.Signal(syscall.SIGSTOP)
				hold(beyondLease)
				worker.Signal(syscall.SIGCONT)
				hold(200 * time.Millisecond)
			}
		}},
		{"re-estimates while the own endpoint is down", false, (*chaos).reestimateUnheard},
		{"retention, and its ids used again", true, (*chaos).reuseIDs},
		{"due times an hour back, five times", false, func(c *chaos) {
			for range 5 {
				c.exec(`UPDATE webhook_deliveries SET next_attempt_at = next_attempt_at - 3600000000 WHERE status = 'pending'`)
				c.exec(`UPDATE material_requests SET due_at = due_at - 3600000000 WHERE status = 'enqueued'`)
				hold(200 * time.Millisecond)
			}
		}},
		{"due times 10 s ahead, five times", false, func(c *chaos) {
			for range 5 {
				c.exec(`UPDATE webhook_deliveries SET next_attempt_at = next_attempt_at + 10000000 WHERE status = 'pending'`)
				c.exec(`UPDATE material_requests SET due_at = due_at + 10000000 WHERE status = 'enqueued'`)
				hold(200 * time.Millisecond)
			}
		}},
		{"everything restarted in turn by SIGTERM", false, (*chaos).restartAll},
	}
	for _, pair := range []struct {
		name    string
		proxies func(*chaos) []*apptest.Proxy
	}{
		{"apis and PostgreSQL", func(c *chaos) []*apptest.Proxy { return c.apiDatabase }},
		{"workers and PostgreSQL", func(c *chaos) []*apptest.Proxy { return c.workerDatabase }},
		{"apis and NATS", func(c *chaos) []*apptest.Proxy { return c.apiNATS }},
		{"workers and NATS", func(c *chaos) []*apptest.Proxy { return c.workerNATS }},
		{"workers and the receiver", func(c *chaos) []*apptest.Proxy { return []*apptest.Proxy{c.toReceiver} }},
		{"workers and the own endpoint", func(c *chaos) []*apptest.Proxy { return c.toOwn }},
	} {
		list = append(list,
			fault{pair.name + " cut", false, func(c *chaos) { broken(pair.proxies(c), (*apptest.Proxy).Cut) }},
			fault{pair.name + " silent", false, func(c *chaos) { broken(pair.proxies(c), (*apptest.Proxy).Stall) }})
	}
	list = append(list, lostHosts()...)
	return append(list, fault{"every connection 20 ms slower, each way", false, func(c *chaos) {
		broken(c.connections(), func(p *apptest.Proxy) { p.Delay(20 * time.Millisecond) })
	}})
}

// TestChaos runs a few faults in `make test` and all of them in `make chaos`, one after the other under load; a value
// of SUPPLYHUB_TEST_CHAOS other than 1 is a part of the names of those to run.
func TestChaos(t *testing.T) {
	wanted := os.Getenv("SUPPLYHUB_TEST_CHAOS")
	if wanted == "" {
		t.Parallel()
	}
	c := newChaos(t)
	for _, f := range faults() {
		if wanted == "" && f.short || wanted == "1" || wanted != "" && strings.Contains(f.name, wanted) {
			c.under(f.name, f.run)
		}
		if t.Failed() {
			return
		}
	}
	v := accounted(t, c.hub)
	t.Logf("api verify: %v requests, %v deliveries", v.Requests, v.Deliveries)
}

// reestimateUnheard begins new rounds whose events, and those of the rounds before, reach the own endpoint late.
func (c *chaos) reestimateUnheard() {
	c.t.Helper()
	ids := c.estimatedAside(20)
	each(c.toOwn, (*apptest.Proxy).Cut)
	for range 2 {
		for _, id := range ids {
			want(c.t, reestimate(c.t, c.supplier, id), 202)
		}
		hold(outage / 2)
	}
	each(c.toOwn, (*apptest.Proxy).Heal)
	for _, id := range ids {
		becomes(c.t, c.supplier, id, "estimated")
	}
}

// reuseIDs has retention delete requests, and posts others under their ids.
func (c *chaos) reuseIDs() {
	c.t.Helper()
	ids := c.estimatedAside(20)
	list := strings.Trim(strings.ReplaceAll(fmt.Sprint(ids), " ", ", "), "[]")
	// Retention reads in the order of acceptance and ends where nothing is old any more: all that was accepted before
	// is old too, and stays, as it was changed of late.
	c.exec(`WITH before AS MATERIALIZED (SELECT uid FROM material_requests WHERE uid <=
			(SELECT max(uid) FROM material_requests WHERE id IN (` + list + `)) ORDER BY supplier_id, id FOR UPDATE)
		UPDATE material_requests SET created_at = 1,
			updated_at = CASE WHEN id IN (` + list + `) THEN 1 ELSE updated_at END
		WHERE uid IN (SELECT uid FROM before)`)
	var deleted int64 // deliveries under way stay
	wait.Until(c.t, "all are deleted", func() bool {
		deleted += apptest.MustCommand[pruned](c.t, c.hub, "retention", "run", "--days", "1").Requests
		return deleted == int64(len(ids))
	})
	for _, id := range ids {
		want(c.t, c.supplier.Do(c.t, http.MethodPost, requests, request(id, object{"shop_code": "another"})), 201)
	}
	for _, id := range ids {
		becomes(c.t, c.supplier, id, "estimated")
	}
}

// estimatedAside are estimated requests next to those that the clients send.
func (c *chaos) estimatedAside(n int) []int64 {
	c.t.Helper()
	ids := make([]int64, n)
	for i := range ids {
		ids[i] = submit(c.t, c.supplier, nil)
	}
	for _, id := range ids {
		becomes(c.t, c.supplier, id, "estimated")
	}
	return ids
}

// hold is how long an outage lasts.
func hold(d time.Duration) { time.Sleep(d) }

func killed(p *apptest.Process, away time.Duration) {
	p.Kill()
	hold(away)
	p.Restart()
}

func broken(proxies []*apptest.Proxy, how func(*apptest.Proxy)) {
	each(proxies, how)
	hold(outage)
	each(proxies, (*apptest.Proxy).Heal)
}

func each(proxies []*apptest.Proxy, do func(*apptest.Proxy)) {
	for _, p := range proxies {
		do(p)
	}
}

func (c *chaos) eachNode(do func(i int)) {
	for i := range c.nats.Nodes {
		do(i)
	}
}

func (c *chaos) withoutNodes(away time.Duration, quota int64, nodes ...int) {
	for _, i := range nodes {
		c.nats.Nodes[i].Kill()
	}
	hold(away)
	for _, i := range nodes {
		c.nats.Nodes[i].Start(quota)
	}
}

func (c *chaos) exec(statement string) {
	c.t.Helper()
	db, err := sql.Open("pgx", c.postgres.Address())
	if err != nil {
		c.t.Fatal(err)
	}
	defer db.Close()
	if err := pastDeadlocks(c.t, db, statement); err != nil {
		c.t.Fatal(err)
	}
}

// pastDeadlocks executes a statement, and once more where it was in the way of the service, whose statements lock in
// one order and this one does not.
func pastDeadlocks(t *testing.T, db *sql.DB, statement string, args ...any) error {
	t.Helper()
	for {
		_, err := db.ExecContext(t.Context(), statement, args...)
		if err == nil || !strings.Contains(err.Error(), "deadlock detected") {
			return err
		}
	}
}

func (c *chaos) restartAll() {
	for _, p := range append(append([]*apptest.Process(nil), c.hub.APIs...), c.hub.Workers...) {
		if code := p.Stop(); code != 0 {
			c.t.Errorf("%s: exit code %d after SIGTERM", p.Name, code)
		}
		p.Restart()
	}
	for _, n := range c.nats.Nodes {
		n.Stop()
		n.Start(0)
		hold(time.Second) // until it has caught up
	}
}
