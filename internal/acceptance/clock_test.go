package acceptance

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// TestCommands_count_from_the_databases_clock runs on a database whose clock is an hour back, as all machines' are
// ahead of it.
func TestCommands_count_from_the_databases_clock(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production,
		apptest.Options{APIs: 1, Workers: 1, Env: map[string]string{"DATABASE_URL": hourBack(t)}})
	s := h.Supplier(t)
	id := submit(t, s, nil)
	if made, err := time.Parse(time.RFC3339, becomes(t, s, id, "estimated").CreatedAt); err != nil ||
		time.Since(made) < time.Hour {
		t.Fatalf("made at %s, not an hour ago: %v", made, err)
	}
	for since, n := range map[string]int{"30m": 1, "0s": 0} {
		if list := apptest.MustCommand[[]object](t, h, "delivery", "list", "--since", since); len(list) != n {
			t.Errorf("delivery list --since %s: %d deliveries, want %d", since, len(list), n)
		}
	}
	if got := apptest.MustCommand[object](t, h, "delivery", "redeliver", "--status", "delivered", "--since", "30m",
		"--yes"); got["redelivered"] != 1.0 {
		t.Errorf("delivery redeliver --since 30m: %v", got)
	}
	halfAnHourAgo := time.Now().Add(-30 * time.Minute).UTC().Format(time.RFC3339) // is half an hour ahead of the database
	if out, errOut, code := h.Command(t, "retention", "run", "--before", halfAnHourAgo); code != 2 {
		t.Errorf("retention run --before what is to come: exit code %d, %s%s", code, out, errOut)
	}
	want(t, s.Do(t, http.MethodGet, requestPath(id), nil), http.StatusOK)
	for _, list := range []string{"request", "delivery", "supplier"} {
		out, errOut, code := h.Command(t, list, "list")
		if fields := strings.Fields(out); code != 0 || strings.Contains(out, " 1h ") || len(fields) == 0 {
			t.Errorf("%s list shows the age of what was just made:\n%s%s", list, out, errOut)
		}
	}
}

// hourBack is the address of an empty database whose clock is an hour back.
func hourBack(t *testing.T) string {
	t.Helper()
	address, set := movableClock(t)
	set(-time.Hour)
	return address
}

// movableClock is the address of an empty database, whose clock can be set off.
func movableClock(t *testing.T) (address string, set func(time.Duration)) {
	t.Helper()
	address = databasetest.EmptyPostgres(t)
	db := openDatabase(t, &apptest.Hub{Stack: apptest.Production, Env: map[string]string{"DATABASE_URL": address}})
	do := func(statement string, args ...any) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), statement, args...); err != nil {
			t.Fatal(err)
		}
	}
	do(`
		CREATE SCHEMA skewed;
		CREATE TABLE skewed.clock AS SELECT 0::double precision AS ahead;
		CREATE FUNCTION public.clock_timestamp() RETURNS timestamptz LANGUAGE sql
			AS $$ SELECT pg_catalog.clock_timestamp() + (SELECT make_interval(secs => ahead) FROM skewed.clock) $$;
		DO $$ BEGIN
			EXECUTE format('ALTER DATABASE %I SET search_path = public, pg_catalog', current_database());
		END $$`)
	return address, func(ahead time.Duration) { do(`UPDATE skewed.clock SET ahead = $1`, ahead.Seconds()) }
}

// clockOf returns a function that shifts the clock of a stack, and the environment for it.
func clockOf(t *testing.T, stack apptest.Stack) (env map[string]string, set func(time.Duration)) {
	t.Helper()
	if stack == apptest.Production {
		address, set := movableClock(t)
		return map[string]string{"DATABASE_URL": address}, set
	}
	file := filepath.Join(t.TempDir(), "clock")
	return map[string]string{"SUPPLYHUB_TEST_CLOCK": "@" + file}, func(ahead time.Duration) {
		t.Helper()
		if err := os.WriteFile(file, []byte(ahead.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheDatabasesClockJumping(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		for name, jump := range map[string]time.Duration{"ahead": 10 * time.Minute, "back": -10 * time.Minute} {
			t.Run(string(stack)+" ten minutes "+name+" delays nothing", func(t *testing.T) {
				t.Parallel()
				clockJumps(t, stack, jump)
			})
		}
	}
}

// clockJumps has the clock jump under load. Each caller is far below the limit of its supplier, whose bucket is empty
// soon when it is not filled again.
func clockJumps(t *testing.T, stack apptest.Stack, jump time.Duration) {
	const callers, pause, perSecond = 2, 100 * time.Millisecond, 40
	env, set := clockOf(t, stack)
	env["SUPPLIER_RATE_LIMIT"] = strconv.Itoa(perSecond)
	h := apptest.Start(t, stack, apptest.Options{Env: env})
	receiver := apptest.NewReceiver(t, nil)
	s := h.Supplier(t, "--webhook-url", receiver.URL, "--access-ttl", "2h")
	l := startPacedLoad(t, h, s, callers, pause)
	l.reaches(t, 20)
	set(jump)
	for _, p := range slices.Concat(h.APIs, h.Workers) {
		wait.Until(t, p.Name+" notices the jump", func() bool {
			return scrape(t, p)["supplyhub_database_clock_jumps_total"] == "1"
		})
		wait.Until(t, p.Name+" says that it jumped", func() bool { // its log is read from a pipe
			return strings.Contains(p.Log(), "the database's clock jumped")
		})
	}
	before, noticed := len(receiver.Calls()), time.Now().Add(jump)
	first := nextID()
	l.reaches(t, 2*perSecond)
	l.stop()
	l.group.Wait()
	// asked for as an operator: the limit is the load's
	wait.Until(t, "all is delivered and estimated", func() bool {
		return len(deliveredOf(receiver.Calls())) == int(l.accepted.Load()) &&
			len(apptest.MustCommand[[]object](t, h, "request", "list", "--status", "enqueued")) == 0
	})
	if failed := apptest.MustCommand[[]object](t, h, "request", "list", "--status", "failed"); len(failed) > 0 {
		t.Errorf("requests are failed: %v", failed)
	}
	for _, call := range receiver.Calls()[before:] {
		made, signed := call.At.Add(jump), call.Header.Get(webhook.HeaderTimestamp)
		at, err := strconv.ParseInt(signed, 10, 64)
		if id := requestOf(call); id > first && (err != nil || made.Sub(time.Unix(at, 0)).Abs() > clockSlack) {
			t.Errorf("the call for request %d at %s, ten minutes off, is signed at %s: %v", id, made, signed, err)
		}
	}
	if made, err := time.Parse(time.RFC3339, read(t, s, submit(t, s, nil)).CreatedAt); err != nil ||
		made.Before(noticed.Add(-clockSlack)) || made.After(time.Now().Add(jump+clockSlack)) {
		t.Errorf("a request is made at %s, which is not ten minutes off %s: %v", made, time.Now(), err)
	}
}

// clockSlack is how long a call may be on its way on a busy machine.
const clockSlack = time.Minute

// startPacedLoad is a load whose callers wait between their requests.
func startPacedLoad(t *testing.T, h *apptest.Hub, s *apptest.Supplier, callers int, pause time.Duration) *load {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	l := &load{stop: stop}
	for caller := range callers {
		l.group.Go(func() {
			for ; ctx.Err() == nil; time.Sleep(pause) {
				id := nextID()
				for !post(t, h, caller, s, id) {
					time.Sleep(pause)
				}
				l.accepted.Add(1)
			}
		})
	}
	return l
}

// requestOf is the id of the request that a call is about.
func requestOf(call apptest.Call) (id int64) {
	parts := strings.Split(call.Path, "/")
	id, _ = strconv.ParseInt(parts[len(parts)-2], 10, 64) // …/{id}/delivery-estimates
	return id
}

// deliveredOf are the requests that the calls are about.
func deliveredOf(calls []apptest.Call) map[int64]bool {
	ids := map[int64]bool{}
	for _, call := range calls {
		ids[requestOf(call)] = true
	}
	return ids
}
