package acceptance

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// stop stops a process as an operator does.
func stop(t *testing.T, p *apptest.Process) {
	t.Helper()
	if code := p.Stop(); code != 0 {
		t.Errorf("%s: exit code %d after SIGTERM", p.Name, code)
	}
}

// backup saves what the service stores, as its operator does, and returns what puts it back.
func backup(t *testing.T, h *apptest.Hub) (restore func()) {
	t.Helper()
	processes := append(append([]*apptest.Process{}, h.Workers...), h.APIs...)
	stopped := func(fn func()) {
		for _, p := range processes {
			stop(t, p)
		}
		fn()
		for _, p := range h.APIs {
			p.Restart()
		}
		for _, p := range h.Workers {
			p.Restart()
		}
	}
	if h.Stack == apptest.Production {
		dump := databasetest.Dump(t, h.Env["DATABASE_URL"])
		return func() { stopped(func() { h.Env["DATABASE_URL"] = databasetest.Restored(t, dump) }) }
	}
	data, saved := h.Env["DATA_DIR"], filepath.Join(t.TempDir(), "saved.tar")
	apptest.MustCommand[struct{}](t, h, "backup", saved)
	return func() {
		stopped(func() {
			if err := os.RemoveAll(data); err != nil {
				t.Fatal(err)
			}
			if out, errOut, code := runIn(t, t.TempDir(), "api", []string{"DATA_DIR=" + data}, "restore", saved); code != 0 {
				t.Fatalf("restore: exit code %d: %s%s", code, out, errOut)
			}
		})
	}
}

// given returns the webhook-ids of all deliveries that there are, those to the own endpoint included, each with its
// request's number.
func given(t *testing.T, h *apptest.Hub) (ids map[string]int64) {
	t.Helper()
	db := openDatabase(t, h)
	defer db.Close() // its file is going to be replaced
	rows, err := db.QueryContext(t.Context(), `SELECT id, uid FROM webhook_deliveries`)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	ids = map[string]int64{}
	for rows.Next() {
		var id string
		var uid int64
		if err := rows.Scan(&id, &uid); err != nil {
			t.Fatal(err)
		}
		ids[id] = uid
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return ids
}

func TestWebhookIDs_are_not_given_again_after_a_restore(t *testing.T) {
	t.Parallel()
	for _, stack := range apptest.Stacks {
		t.Run(string(stack), func(t *testing.T) {
			t.Parallel()
			h := apptest.Start(t, stack, apptest.Options{APIs: 1, Workers: 1})
			receiver := apptest.NewReceiver(t, nil)
			s := h.Supplier(t, "--webhook-url", receiver.URL)
			const each = 5
			sent := func(n int) { // also of a further round of what was there before
				t.Helper()
				wait.Until(t, fmt.Sprintf("the receiver has %d", n), func() bool { return len(receiver.Calls()) >= n })
			}
			first := submit(t, s, nil)
			becomes(t, s, first, "estimated")
			sent(1)
			restore := backup(t, h)
			kept := given(t, h)
			goOn := func(n int) {
				t.Helper()
				want(t, reestimate(t, s, first), http.StatusAccepted)
				for range each {
					becomes(t, s, submit(t, s, nil), "estimated")
				}
				becomes(t, s, first, "estimated")
				sent(n)
			}
			goOn(2 + each)
			lost := given(t, h)
			restore()
			goOn(3 + 2*each)
			fresh, twice := given(t, h), map[int64]bool{}
			for id, number := range fresh {
				if lost[id] != kept[id] {
					t.Errorf("%s is a lost delivery's, too", id)
				}
				twice[number] = slices.Contains(slices.Collect(maps.Values(lost)), number)
			}
			maps.DeleteFunc(twice, func(_ int64, is bool) bool { return !is })
			if len(fresh) != 2*(2+each) || len(twice) < 2 { // the first request's, and of others
				t.Fatalf("%d deliveries, %d numbers were given twice: nothing was set back", len(fresh), len(twice))
			}
			bodies := map[string]string{}
			for _, call := range receiver.Calls() {
				id := call.Header.Get("webhook-id")
				if before, known := bodies[id]; known && before != string(call.Body) {
					t.Errorf("%s came with %s and with %s", id, before, call.Body)
				}
				bodies[id] = string(call.Body)
			}
			accounted(t, h)
		})
	}
}

// A key that only the service has in its environment is not in the backup.
func TestBackup_names_every_key_that_it_does_not_hold(t *testing.T) {
	t.Parallel()
	h, dir := apptest.Start(t, apptest.Embedded, apptest.Options{APIs: 1}), t.TempDir()
	others := filepath.Join(dir, ".backup", "of another program")
	if err := os.MkdirAll(others, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(h.Env["DATA_DIR"], "secrets_key")); err != nil {
		t.Fatal(err)
	}
	out, errOut, code := h.Command(t, "backup", filepath.Join(dir, "b.tar"), "-o", "json")
	var made struct{ Holds, Keep []string }
	if err := json.Unmarshal([]byte(out), &made); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v, %s", code, err, errOut)
	}
	if slices.Contains(made.Holds, "secrets_key") || !slices.Contains(made.Keep, "SECRETS_KEY") ||
		!slices.Contains(made.Holds, "jwt_signing_keys") || slices.Contains(made.Keep, "JWT_SIGNING_KEYS") {
		t.Errorf("it holds %v and says to keep %v", made.Holds, made.Keep)
	}
	if _, err := os.Stat(others); err != nil {
		t.Errorf("a directory of others next to the backup: %v", err)
	}
}
