package acceptance

import (
	"database/sql"
	"errors"
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
	for role, refused := range map[string][]string{
		"supplyhub_api": {
			`UPDATE supplier_webhook_secrets SET sealed = ''`, `INSERT INTO suppliers SELECT * FROM suppliers`, `UPDATE suppliers SET scopes = ''`,
			`INSERT INTO supplier_api_keys SELECT * FROM supplier_api_keys`, `DELETE FROM material_requests`, `UPDATE webhook_events SET body = ''`,
			`UPDATE webhook_deliveries SET attempts = 0`, `DELETE FROM webhook_deliveries`, `UPDATE settings SET value = ''`, `UPDATE rate_services SET name = name`,
			`UPDATE tracker_clients SET active = true`, `SELECT FROM tracker_records`, `TRUNCATE sessions`, `DROP TABLE sessions`, `CREATE TABLE mine (x int)`,
		},
		"supplyhub_worker": {
			`SELECT FROM supplier_api_keys`, `SELECT FROM sessions`, `INSERT INTO material_requests SELECT * FROM material_requests`, `UPDATE suppliers SET active = true`,
			`DELETE FROM material_requests`, `DELETE FROM webhook_attempts`, `SELECT estimates FROM material_requests`, `UPDATE material_requests SET estimates = NULL`, `UPDATE products SET active = true`,
			`SELECT FROM tracker_clients`, `UPDATE scoreboard_usage SET used = 0`, `UPDATE settings SET value = ''`, `CREATE TABLE mine (x int)`,
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
			"$JS.API.CONSUMER.DELETE.MR.worker", "$JS.API.STREAM.CREATE.other", "other"},
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
			case <-time.After(5 * time.Second):
				t.Errorf("%s may publish %s", user, subject)
			}
		}
	}
	if nc, err := nats.Connect(h.NATS.URL()); err == nil {
		nc.Close()
		t.Error("NATS lets in whoever comes")
	}
}
