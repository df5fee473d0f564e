package acceptance

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

// disk is a small file system of its own.
type disk struct {
	t    *testing.T
	path string
}

// newDisk mounts one of so many MiB. Where that is not allowed the test is skipped, and says so: the error of an engine
// without room is tested in internal/database everywhere.
func newDisk(t *testing.T, mib int) disk {
	t.Helper()
	path, err := os.MkdirTemp("", "supplyhub-disk-") // which PostgreSQL's account may enter
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.Remove(path) })
	if err := syscall.Mount("tmpfs", path, "tmpfs", 0, fmt.Sprintf("size=%dm", mib)); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: %s: no file system of its own can be mounted here: %v\n", t.Name(), err)
		t.Skip(err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(path, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return disk{t, path}
}

func (d disk) ballast() string { return filepath.Join(d.path, "ballast") }

// fill takes all room.
func (d disk) fill() {
	d.t.Helper()
	file, err := os.OpenFile(d.ballast(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		d.t.Fatal(err)
	}
	defer file.Close()
	for _, size := range []int{1 << 20, 1 << 12} {
		for err = nil; err == nil; {
			_, err = file.Write(make([]byte, size))
		}
		if !errors.Is(err, syscall.ENOSPC) {
			d.t.Fatal(err)
		}
	}
}

// clear frees all room again.
func (d disk) clear() {
	d.t.Helper()
	if err := os.Remove(d.ballast()); err != nil {
		d.t.Fatal(err)
	}
}

// fullDisk is a service that is used while its database has no room.
type fullDisk struct {
	*chaos
	full, room func()
}

func newFullDisk(t *testing.T, stack apptest.Stack, env map[string]string) *fullDisk {
	t.Helper()
	env["WEBHOOK_RETRY_SCHEDULE"] = strings.TrimSuffix(strings.Repeat("1s,", 600), ",")
	c := &chaos{t: t, receiver: newCountingReceiver(t)}
	c.hub = apptest.Start(t, stack, apptest.Options{Env: env})
	c.supplier = c.hub.Supplier(t, "--access-ttl", "2h", "--webhook-url", c.receiver.url)
	c.receiver.expect(secret(t, c.supplier.WebhookSecret))
	return &fullDisk{chaos: c}
}

// run takes the room away under load and gives it back.
func (f *fullDisk) run() {
	t := f.t
	outcome := f.under("no room on the disk", func(*chaos) {
		f.full()
		wait.Until(t, "a request finds no room", func() bool { return f.refused() })
		for _, p := range append(f.hub.APIs, f.hub.Workers...) {
			// small changes may find room, and a process that stores some of them is ready again after a while
			wait.Until(t, p.Name+" is not ready", func() bool { return f.refused() && !ready(p) })
		}
		f.sweep()
		if status, detail, _ := doctor(t, f.hub, "api", nil).said(t, "database"); status != "broken" {
			t.Errorf("the doctor says %s: %s", status, detail)
		}
		f.saidOnceAMinute()
		f.room()
		for _, p := range append(f.hub.APIs, f.hub.Workers...) {
			wait.Until(t, p.Name+" is ready again", func() bool { return ready(p) })
		}
	})
	if outcome.delivered == 0 {
		t.Errorf("%+v", outcome)
	}
	accounted(t, f.hub)
	for _, p := range f.hub.APIs {
		f.no500(p)
	}
}

// refused reports whether a request of some size is answered 503; it is accepted as long as there is room.
func (f *fullDisk) refused() bool {
	a := f.post(nextID())
	switch a.Status {
	case http.StatusCreated:
		return false
	case http.StatusServiceUnavailable:
		if wantProblem(f.t, a, a.Status); a.Header.Get("Retry-After") == "" {
			f.t.Error("a 503 has no Retry-After")
		}
		return true
	default:
		f.t.Fatalf("%d %s", a.Status, a.Body)
		return false
	}
}

func (f *fullDisk) post(id int64) apptest.Answer {
	items := make([]object, 100)
	for i := range items {
		items[i] = item(object{"material_id": i, "material": strings.Repeat("m", 250)})
	}
	return f.supplier.Do(f.t, http.MethodPost, requests, request(id, object{"materials": items}))
}

// sweep calls whatever changes something: small changes may find room, and none is a 500.
func (f *fullDisk) sweep() {
	s := f.supplier
	calls := map[string]func() apptest.Answer{
		"intake": func() apptest.Answer { return f.post(nextID()) },
		"token":  func() apptest.Answer { return f.hub.Do(f.t, http.MethodPost, tokenPath, nil, "x-api-key", s.APIKey) },
		"refresh": func() apptest.Answer {
			return f.hub.Do(f.t, http.MethodPost, refreshPath, object{"refreshToken": s.RefreshToken()})
		},
		"reading": func() apptest.Answer { return s.Do(f.t, http.MethodGet, requests, nil) },
		"product": func() apptest.Answer {
			return s.Do(f.t, http.MethodPost, "/api/products/sync", object{"sku": "FULL", "name": strings.Repeat("n", 200),
				"action": "upsert"})
		},
		"receiver": func() apptest.Answer {
			return s.Do(f.t, http.MethodPut, "/api/webhook-receiver", object{"url": f.receiver.url})
		},
		"recover": func() apptest.Answer {
			return s.Do(f.t, http.MethodPost, "/api/webhook-deliveries/redeliver",
				object{"status": "undelivered", "since": "2020-01-01T00:00:00Z"})
		},
		"portal": func() apptest.Answer { return s.Do(f.t, http.MethodPost, "/api/portal-sessions", nil) },
		"test":   func() apptest.Answer { return s.Do(f.t, http.MethodPost, "/api/webhook-receiver/test", nil) },
		"tracker": func() apptest.Answer {
			return f.hub.Do(f.t, http.MethodGet, trackers, nil, "svc-public-hub-key", "unknown")
		},
	}
	for range 50 {
		f.post(nextID())
	}
	for range 3 {
		for name, call := range calls {
			if a := call(); a.Status >= 500 && (a.Status != 503 || a.Header.Get("Retry-After") == "") {
				f.t.Errorf("%s: %d %v %s", name, a.Status, a.Header, a.Body)
			}
		}
	}
}

// saidOnceAMinute fails when the same warning is there for each request, or an error.
func (f *fullDisk) saidOnceAMinute() {
	for _, p := range append(f.hub.APIs, f.hub.Workers...) {
		said := map[string]int{}
		for line := range strings.Lines(p.Log()) {
			var l struct{ Level, Msg, Component string }
			_ = json.Unmarshal([]byte(line), &l)
			if l.Level == "WARN" && l.Component == "" && l.Msg != "slow statement" { // that is the machine's
				said[l.Msg]++
			}
			if l.Level == "ERROR" && l.Component == "" {
				f.t.Errorf("%s logged an error: %s", p.Name, line)
			}
		}
		lines := 0
		for msg, times := range said {
			if lines += times; times > 5 {
				f.t.Errorf("%s says %d times: %s", p.Name, times, msg)
			}
		}
		if lines == 0 {
			f.t.Errorf("%s warns of nothing", p.Name)
		}
	}
}

// no500 fails when any answer of the process was one.
func (f *fullDisk) no500(p *apptest.Process) {
	response, err := http.Get(p.AdminURL("/metrics"))
	if err != nil {
		f.t.Fatal(err)
	}
	defer response.Body.Close()
	var metrics bytes.Buffer
	if _, err := metrics.ReadFrom(response.Body); err != nil {
		f.t.Fatal(err)
	}
	for line := range strings.Lines(metrics.String()) {
		if strings.HasPrefix(line, "http_requests_total") && strings.Contains(line, `status="500"`) {
			f.t.Errorf("answered 500: %s", line)
		}
	}
}

func TestFullDisk_of_the_embedded_service_is_503_and_loses_nothing(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 64)
	f := newFullDisk(t, apptest.Embedded, map[string]string{"DATA_DIR": d.path})
	f.full, f.room = d.fill, d.clear
	f.run()
}

// TestFullDisk_of_PostgreSQLs_tables leaves its log room: it goes on serving what needs none.
func TestFullDisk_of_PostgreSQLs_tables_is_503_and_loses_nothing(t *testing.T) {
	t.Parallel()
	if !inFull() {
		t.Skip("half a minute of a core; PostgreSQL without room for its log, and read-only, are tested; run `make chaos`")
	}
	d := newDisk(t, 64)
	server, err := cluster.Start(true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	tables := filepath.Join(d.path, "tables")
	if err := errors.Join(os.Mkdir(tables, 0o700), server.Own(tables)); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{
		`CREATE TABLESPACE small LOCATION '` + tables + `'`,
		`CREATE DATABASE hub TABLESPACE small`,
	} {
		administer(t, server, statement)
	}
	f := newFullDisk(t, apptest.Production, map[string]string{
		"DATABASE_URL": strings.Replace(server.Address(), "/postgres?", "/hub?", 1)})
	f.full, f.room = d.fill, d.clear
	f.run()
}

// TestFullDisk_of_PostgreSQL has its log on the full disk too: the server ends and does not come back before there is
// room.
func TestFullDisk_of_PostgreSQL_with_its_log_is_503_and_loses_nothing(t *testing.T) {
	t.Parallel()
	d := newDisk(t, 256)
	server, err := cluster.StartIn([]string{d.path}, true, "min_wal_size=32MB", "max_wal_size=64MB")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	f := newFullDisk(t, apptest.Production, map[string]string{"DATABASE_URL": server.Address()})
	f.full = d.fill
	f.room = func() {
		d.clear()
		select {
		case <-server.Exited(): // as an operator does, or systemd
			if err := server.Restart(); err != nil {
				t.Fatal(err)
			}
		case <-time.After(time.Second):
		}
	}
	f.run()
}

// TestReadOnly always runs: PostgreSQL is set to take no changes, as it is by a managed service whose disk is full.
func TestReadOnly_PostgreSQL_is_503_and_loses_nothing(t *testing.T) {
	t.Parallel()
	server, err := cluster.Start(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Remove)
	f := newFullDisk(t, apptest.Production, map[string]string{"DATABASE_URL": server.Address()})
	tell := func(value string) {
		for _, statement := range []string{`ALTER SYSTEM SET default_transaction_read_only = ` + value,
			`SELECT pg_reload_conf()`} {
			administer(t, server, statement)
		}
	}
	f.full, f.room = func() { tell("on") }, func() { tell("off") }
	f.run()
}
