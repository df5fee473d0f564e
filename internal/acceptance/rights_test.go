package acceptance

import (
	"bytes"
	"database/sql"
	"errors"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// TestService's production stack runs with the rights of deployments/: that they suffice. This is that they are few.
func TestRights_of_the_binaries_are_the_least(t *testing.T) {
	t.Parallel()
	h := apptest.Start(t, apptest.Production, apptest.Options{APIs: 1, Workers: 1, LeastRights: true})
	s := h.Supplier(t)
	becomes(t, s, submit(t, s, nil), "estimated")
	for _, p := range append(h.APIs, h.Workers...) {
		if strings.Contains(p.Log(), "lacks a permission") {
			t.Errorf("the rights of %s do not suffice: %s", p.Name, p.Log())
		}
	}
	for role, refused := range map[string][]string{
		"supplyhub_api": {
			`UPDATE supplier_webhook_secrets SET sealed = ''`, `INSERT INTO suppliers SELECT * FROM suppliers`,
			`UPDATE suppliers SET scopes = ''`,
			`INSERT INTO supplier_api_keys SELECT * FROM supplier_api_keys`, `DELETE FROM material_requests`,
			`UPDATE webhook_events SET body = ''`,
			`UPDATE webhook_deliveries SET attempts = 0`, `DELETE FROM webhook_deliveries`, `UPDATE settings SET value = ''`,
			`UPDATE rate_services SET name = name`,
			`UPDATE tracker_clients SET active = true`, `SELECT FROM tracker_records`, `TRUNCATE sessions`,
			`DROP TABLE sessions`, `CREATE TABLE mine (x int)`,
		},
		"supplyhub_worker": {
			`SELECT FROM supplier_api_keys`, `SELECT FROM sessions`,
			`INSERT INTO material_requests SELECT * FROM material_requests`, `UPDATE suppliers SET active = true`,
			`DELETE FROM material_requests`, `DELETE FROM webhook_attempts`, `SELECT estimates FROM material_requests`,
			`UPDATE material_requests SET estimates = NULL`, `UPDATE products SET active = true`,
			`SELECT FROM tracker_clients`, `UPDATE scoreboard_usage SET used = 0`, `UPDATE settings SET value = ''`,
			`CREATE TABLE mine (x int)`,
		},
	} {
		db, err := sql.Open("pgx", databasetest.As(t, h.Env["DATABASE_URL"], role))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
		for _, statement := range refused {
			_, err := db.ExecContext(t.Context(), statement)
			if err == nil || !strings.Contains(err.Error(), "permission denied") &&
				!strings.Contains(err.Error(), "must be owner") {
				t.Errorf("%s: %s: %v", role, statement, err)
			}
		}
	}
	for user, refused := range map[string][]string{
		"api": {"$JS.API.CONSUMER.MSG.NEXT.MR.worker", "$JS.ACK.MR.worker.1.1.1.1.1", "$JS.API.STREAM.DELETE.MR",
			"$JS.API.STREAM.PURGE.MR", "other"},
		"worker": {"mr.someone.1", "$JS.API.STREAM.DELETE.MR", "$JS.API.STREAM.PURGE.MR",
			"$JS.API.CONSUMER.DELETE.MR.other", "$JS.API.STREAM.CREATE.other", "other"},
	} {
		violations := make(chan error, 100)
		nc, err := nats.Connect(h.NATS.URLOf(user), nats.CustomInboxPrefix("_INBOX_"+user),
			nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err }))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(nc.Close)
		for _, subject := range refused {
			if err := nc.Publish(subject, nil); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-violations:
				if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), subject) {
					t.Errorf("%s: %s: %v", user, subject, err)
				}
			case <-time.After(time.Minute):
				t.Errorf("%s may publish %s", user, subject)
			}
		}
	}
	if nc, err := nats.Connect(h.NATS.URL()); err == nil {
		nc.Close()
		t.Error("NATS lets in everyone")
	}
	admin := workerOfAnotherUser(t, h)
	apptest.Eventually(t, "a worker that lacks rights is not ready and says which", func() bool {
		response, err := http.Get("http://" + admin + "/readyz")
		if err != nil {
			return false // it is starting
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusServiceUnavailable &&
			bytes.Contains(body, []byte(`lacks a permission`)) && bytes.Contains(body, []byte("_INBOX_worker"))
	})
}

// workerOfAnotherUser starts a worker that has the api's user on NATS, who may make stream and consumer and read
// neither.
func workerOfAnotherUser(t *testing.T, h *apptest.Hub) (admin string) {
	t.Helper()
	admin = "127.0.0.1:" + freePort(t)
	var log bytes.Buffer
	cmd := exec.Command(apptest.Binary(t, "worker"))
	for name, value := range h.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	cmd.Env = append(cmd.Env, "NATS_URL="+h.NATS.URLOf("api"), "ADMIN_ADDR="+admin,
		"ESTIMATES_WEBHOOK_BASE_URL="+h.BaseURL())
	cmd.Stderr = &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait() // it was killed
		if n := strings.Count(log.String(), "the NATS user lacks a permission, trying on"); n != 1 {
			t.Errorf("%d warnings: %s", n, log.String())
		}
	})
	return admin
}
