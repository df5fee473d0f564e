package acceptance

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// sweep is a whole stack on one database whose connections are lost around COMMITs, and the load that goes on.
type sweep struct {
	t     *testing.T
	hub   *apptest.Hub
	plan  *sweepPlan
	calls *callLedger
	store *sql.DB // past the proxy

	steady, stumbling *sweepSupplier
	suppliers         []*sweepSupplier // whose requests must all be delivered

	stop  context.CancelFunc
	group sync.WaitGroup
}

// sweepSupplier is a supplier and what the service has accepted of it.
type sweepSupplier struct {
	*apptest.Supplier
	mu  sync.Mutex
	ids []int64
}

func (s *sweepSupplier) accepted(id int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ids = append(s.ids, id)
}

// all are the ids of what was accepted so far.
func (s *sweepSupplier) all() []int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.ids)
}

func newSweep(t *testing.T, stack apptest.Stack, plan *sweepPlan) *sweep {
	t.Helper()
	s := &sweep{t: t, plan: plan, calls: newCallLedger()}
	var first atomic.Pointer[apptest.Process]
	env := map[string]string{
		"WEBHOOK_TIMEOUT": "2s", "WEBHOOK_RETRY_SCHEDULE": strings.TrimSuffix(strings.Repeat("300ms,", 200), ","),
		"ESTIMATES_WEBHOOK_BASE_URL": countedEndpoint(t, s.calls, func() string {
			if api := first.Load(); api != nil {
				return api.Address()
			}
			return "127.0.0.1:1" // not yet
		}),
	}
	direct := &apptest.Hub{Stack: stack, Env: map[string]string{}}
	if stack == apptest.Production {
		direct.Env["DATABASE_URL"] = databasetest.Service(t)
		env["DATABASE_URL"] = s.throughProxy(direct.Env["DATABASE_URL"])
	}
	s.hub = apptest.Start(t, stack, apptest.Options{Env: env})
	first.Store(s.hub.APIs[0])
	direct.Env["DATA_DIR"] = s.hub.Env["DATA_DIR"]
	s.store = openDatabase(t, direct)
	s.steady = s.supplier(func(int) int { return http.StatusOK })
	s.stumbling = s.supplier(stumbles())
	return s
}

// throughProxy leads to the database at the address, past the plan.
func (s *sweep) throughProxy(address string) string {
	s.t.Helper()
	database, err := url.Parse(address)
	if err != nil {
		s.t.Fatal(err)
	}
	query := database.Query()
	// as libpq names it
	proxy := apptest.NewCommitProxy(s.t, "unix", fmt.Sprintf("%s/.s.PGSQL.%s", query.Get("host"), query.Get("port")),
		s.plan.at, s.plan.note)
	query.Del("host")
	query.Del("port")
	query.Set("sslmode", "disable")
	database.Host, database.RawQuery = proxy.Address, query.Encode()
	return database.String()
}

// supplier makes one whose receiver answers the n-th call of a delivery by status. Nothing is cut meanwhile.
func (s *sweep) supplier(status func(n int) int) *sweepSupplier {
	s.t.Helper()
	made := &sweepSupplier{Supplier: s.hub.Supplier(s.t, "--access-ttl", "2h", "--webhook-url",
		sweepReceiver(s.t, s.calls, status))}
	s.suppliers = append(s.suppliers, made)
	return made
}

// loops runs each of the callers again and again, a pause after each time, until the load ends.
func (s *sweep) loops(ctx context.Context, pause time.Duration, callers ...func(round int)) {
	for _, call := range callers {
		s.group.Go(func() {
			for round := 0; ctx.Err() == nil && !s.t.Failed(); round++ {
				call(round)
				time.Sleep(pause) // of a caller, as they are
			}
		})
	}
}

// begin starts the load.
func (s *sweep) begin() {
	ctx, stop := context.WithCancel(s.t.Context())
	s.stop = stop
	s.plan.begin()
	for _, supplier := range []*sweepSupplier{s.steady, s.stumbling} {
		s.loops(ctx, 20*time.Millisecond, s.posts(supplier), s.posts(supplier))
	}
}

// posts sends a request until it is accepted.
func (s *sweep) posts(to *sweepSupplier) func(int) {
	return func(int) {
		id := nextID()
		for api := 0; !post(s.t, s.hub, api, to.Supplier, id); api++ {
			if s.t.Failed() {
				return
			}
			time.Sleep(retryPause)
		}
		to.accepted(id)
	}
}

// end ends the faults and the load.
func (s *sweep) end() (lastFault time.Time) {
	lastFault = s.plan.end()
	s.stop()
	s.group.Wait()
	return lastFault
}

// TestSweep loses the connection to the database right before and right after the COMMIT of every kind of transaction,
// and of every statement that writes alone, by cutting it and by silence, under a load that makes them all. In
// `make test` each kind that comes up in a short load is cut once each way, in `make sweep` each kind of the code 20
// times; a value of SUPPLYHUB_TEST_SWEEP other than 1 is a part of the names of those to be cut.
func TestSweep(t *testing.T) {
	full := os.Getenv("SUPPLYHUB_TEST_SWEEP")
	if full == "" {
		t.Parallel()
	}
	want, atMost := 1, 25*time.Second
	only := ""
	if full != "" {
		want, atMost = 20, 12*time.Minute
	}
	if full != "1" {
		only = full
	}
	s := newSweep(t, apptest.Production, newSweepPlan(want, only))
	begun := time.Now()
	s.begin()
	for time.Since(begun) < atMost && (time.Since(begun) < atMost/3 || len(s.plan.missing()) > 0) && !t.Failed() {
		time.Sleep(50 * time.Millisecond)
	}
	lastFault := s.end()
	s.settles(lastFault)
	fmt.Print(s.plan)
	s.accounts()
}
