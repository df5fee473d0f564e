package acceptance

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// sweepPause is each caller's between two calls.
const sweepPause = 100 * time.Millisecond

// sweep is a whole stack on one database whose connections are lost around COMMITs, and the load that goes on.
type sweep struct {
	t     *testing.T
	hub   *apptest.Hub
	plan  *sweepPlan
	calls *callLedger
	store *sql.DB // past the proxy

	steady, stumbling *sweepSupplier
	refusing          *sweepSupplier // refuses most deliveries once, permanently, which pauses it
	moving, switched  *sweepSupplier // change their receiver; are stopped in the console
	ailing            *sweepSupplier // its receiver always fails
	suppliers         []*sweepSupplier

	turn            atomic.Int64 // of the apis
	asked, answered atomic.Int64 // scoreboards

	stop  context.CancelFunc
	group sync.WaitGroup
}

// sweepSupplier is a supplier and what the service has accepted of it.
type sweepSupplier struct {
	*apptest.Supplier
	url       string // its receiver
	forgotten bool   // its requests are deleted one after the other
	mu        sync.Mutex
	ids       []int64
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
		"OPERATOR_TOKEN": operatorToken, "SCOREBOARD_CACHE_TTL": "0", "PULSE_API_KEY": pulseKey,
		"SPORTMONKS_API_TOKEN": sportToken, "SPORTMONKS_BASE_URL": newProviders(t).primary.URL + "/v3/football",
	}
	maps.Copy(env, newOperator(t).env())
	direct := &apptest.Hub{Stack: stack, Env: map[string]string{}}
	if stack == apptest.Production {
		direct.Env["DATABASE_URL"] = databasetest.Service(t)
		env["DATABASE_URL"] = s.throughProxy(direct.Env["DATABASE_URL"])
	} else {
		env["SUPPLYHUB_TEST_COMMITS"] = s.listens()
	}
	s.hub = apptest.Start(t, stack, apptest.Options{Env: env, Supervised: true})
	first.Store(s.hub.APIs[0])
	direct.Env["DATA_DIR"] = s.hub.Env["DATA_DIR"]
	s.store = openDatabase(t, direct)
	always := func(status int) func(int) int { return func(int) int { return status } }
	s.steady, s.stumbling, s.ailing = s.supplier(always(200)), s.supplier(stumbles(503)), s.supplier(always(500))
	s.moving, s.switched = s.supplier(always(200)), s.supplier(always(200))
	s.refusing = s.supplier(stumbles(410))
	return s
}

// throughProxy connects to the database at the address, past the plan.
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

// listens is where the processes ask the plan what becomes of their COMMITs.
func (s *sweep) listens() string {
	s.t.Helper()
	s.plan.silence = 0
	socket := filepath.Join(s.t.TempDir(), "commits")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		s.t.Fatal(err)
	}
	server := &http.Server{Handler: s.plan, ReadHeaderTimeout: time.Minute}
	s.t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(listener) }() // until it is closed
	return socket
}

// supplier makes one whose receiver answers the n-th call of a delivery by status. Nothing is cut meanwhile.
func (s *sweep) supplier(status func(n int) int) *sweepSupplier {
	s.t.Helper()
	made := &sweepSupplier{url: sweepReceiver(s.t, s.calls, status)}
	made.Supplier = s.hub.Supplier(s.t, "--access-ttl", "2h", "--webhook-url", made.url)
	s.suppliers = append(s.suppliers, made)
	return made
}

// loops runs each of the callers again and again until the load ends.
func (s *sweep) loops(ctx context.Context, callers ...func(round int)) {
	for _, call := range callers {
		s.group.Go(func() {
			for round := 0; ctx.Err() == nil && !s.t.Failed(); round++ {
				call(round)
				time.Sleep(sweepPause)
			}
		})
	}
}

// begin starts the load.
func (s *sweep) begin(full bool) {
	ctx, stop := context.WithCancel(s.t.Context())
	s.stop = stop
	callers := s.oftenCalled() // nothing is cut yet
	if full {
		callers = append(callers, s.seldomCalled()...)
	}
	s.plan.begin()
	for _, supplier := range []*sweepSupplier{s.steady, s.stumbling} {
		callers = append(callers, func(int) { s.posted(supplier, nil) })
	}
	s.loops(ctx, callers...)
}

// end ends the faults and the load, and lets the last silence pass.
func (s *sweep) end() {
	s.stop()
	s.group.Wait()
	time.Sleep(time.Until(s.plan.end()))
}

// bounds of a sweep: how often each kind is cut each way, and for how long the load goes on.
type sweepBounds struct {
	want            int
	atLeast, atMost time.Duration
}

// sweepScope returns what SUPPLYHUB_TEST_SWEEP asks for: a part of the kinds' names, and whether it is the full form.
func sweepScope() (only string, full bool, bounds sweepBounds) {
	switch only = os.Getenv("SUPPLYHUB_TEST_SWEEP"); only {
	case "":
		return "", false, sweepBounds{1, 10 * time.Second, 25 * time.Second}
	case "1":
		only = ""
	}
	return only, true, sweepBounds{20, 30 * time.Second, 40 * time.Minute}
}

// TestSweep loses the connection to the database right before and right after the COMMIT of every kind of transaction,
// and of every statement that writes alone, by cutting it and by silence, under a load that makes them all. In
// `make test` each kind that comes up in a short load is cut once each way, in `make sweep` each kind of the code 20
// times; a value of SUPPLYHUB_TEST_SWEEP other than 1 is a part of the names of those to be cut.
func TestSweep(t *testing.T) {
	only, full, bounds := sweepScope()
	if !full {
		t.Parallel()
	}
	s := newSweep(t, apptest.Production, newSweepPlan(bounds.want, only))
	lacking := func() []string { return s.plan.missing() } // of what came up
	if code := readKinds(t); full {
		lacking = func() []string { return s.unswept(code) }
	}
	s.run(full, bounds, lacking)
	for _, kind := range lacking() {
		if full {
			t.Error(kind)
		}
	}
}

// TestSweep_of_the_embedded_database is the same where COMMITs fail, or are made and seem to fail, in the process.
func TestSweep_of_the_embedded_database(t *testing.T) {
	only, full, bounds := sweepScope()
	if !full {
		t.Parallel()
	}
	if full {
		bounds.atMost /= 4 // some kinds are rare here
	}
	s := newSweep(t, apptest.Embedded, newSweepPlan(bounds.want, only))
	s.run(false, bounds, func() []string { return s.plan.missing() })
}

// run loses connections until nothing lacks and accounts for everything then.
func (s *sweep) run(full bool, bounds sweepBounds, lacking func() []string) {
	s.t.Helper()
	begun := time.Now()
	s.begin(full)
	for past := time.Duration(0); !s.t.Failed() && past < bounds.atMost; past = time.Since(begun) {
		if past > bounds.atLeast && len(lacking()) == 0 {
			break
		}
		time.Sleep(time.Second / 4)
	}
	s.end()
	fmt.Printf("%.0f s of load\n", time.Since(begun).Seconds())
	s.settles()
	fmt.Print(s.plan)
	s.accounts()
}
