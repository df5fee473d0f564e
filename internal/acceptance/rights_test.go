package acceptance

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/queue/queuetest"
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
	wait.Until(t, "a worker that lacks rights is not ready and says which", func() bool {
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
	admin = freeAddress(t)
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

// A program that got one of the two passwords listens to what the other has, makes a reader of its own, forges an
// answer, or looks at what else is on the server.
func TestRights_of_a_NATS_user_reach_no_message_of_the_other(t *testing.T) {
	t.Parallel()
	server := queuetest.NewWithConfig(t, "../../deployments/nats-users.conf", "api", "worker")
	both := []string{"$JS.API.STREAM.SNAPSHOT.MR", "$JS.API.STREAM.MSG.DELETE.MR", "$JS.API.DIRECT.GET.MR",
		"$JS.API.CONSUMER.CREATE.MR", "$JS.API.CONSUMER.CREATE.MR.spy.mr.s.1", "$JS.API.CONSUMER.CREATE.OTHER.spy",
		"$JS.API.CONSUMER.DURABLE.CREATE.MR.spy", "$JS.API.CONSUMER.DELETE.MR.spy", "$JS.API.CONSUMER.PAUSE.MR.spy",
		"$JS.API.STREAM.DELETE.MR", "$JS.API.STREAM.PURGE.MR", "$JS.API.STREAM.MSG.GET.MR",
		"$JS.API.STREAM.CREATE.SPY", "$JS.API.STREAM.UPDATE.OTHER",
		"$JS.API.STREAM.LIST", "$SYS.REQ.SERVER.PING", "_INBOX.x"}
	for user, refused := range map[string]struct{ subscribe, publish []string }{
		"api": {[]string{">", "mr.>", "_INBOX.>", "_INBOX_worker.>", "$JS.>", "$SYS.>"},
			append([]string{"_INBOX_worker.x", "$JS.API.CONSUMER.CREATE.MR.spy",
				"$JS.API.CONSUMER.MSG.NEXT.MR.spy"}, both...)},
		"worker": {[]string{">", "mr.>", "_INBOX.>", "_INBOX_api.>", "$JS.>", "$SYS.>"},
			append([]string{"_INBOX_api.x", "other.s.1"}, both...)},
	} {
		t.Run(user, func(t *testing.T) {
			t.Parallel()
			violations := make(chan error, 100)
			nc, err := nats.Connect(server.URLOf(user), nats.CustomInboxPrefix("_INBOX_"+user),
				nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { violations <- err }))
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(nc.Close)
			expect := func(verb, subject string) {
				t.Helper()
				select {
				case err := <-violations:
					if !strings.Contains(err.Error(), verb+` to "`+subject+`"`) {
						t.Errorf("%s %s: %v", verb, subject, err)
					}
				case <-time.After(time.Minute):
					t.Errorf("%s: %s to %s is allowed", user, verb, subject)
				}
			}
			for _, subject := range refused.subscribe {
				if _, err := nc.Subscribe(subject, func(*nats.Msg) {}); err != nil {
					t.Fatal(err)
				}
				expect("Subscription", subject)
			}
			for _, subject := range refused.publish {
				if err := nc.Publish(subject, nil); err != nil {
					t.Fatal(err)
				}
				expect("Publish", subject)
			}
		})
	}
}

// impostor is what the rows of the real table would be noted in, made by a role for itself: a trigger of its own runs
// with the rights of the function that writes there.
var impostor = []string{
	`CREATE TEMPORARY TABLE %[1]s AS SELECT * FROM %[1]s`,
	`GRANT ALL ON %s TO PUBLIC`,
	`CREATE FUNCTION pg_temp.evil() RETURNS trigger LANGUAGE plpgsql
		AS $$ BEGIN RAISE EXCEPTION '%s runs my code as %%', current_user; END $$`,
	`CREATE TRIGGER evil BEFORE INSERT OR UPDATE OR DELETE ON %s EXECUTE FUNCTION pg_temp.evil()`,
}

// A role that is let in by a leaked DATABASE_URL puts a table of its own before the service's, and writes as always.
func TestRights_of_a_role_that_makes_temporary_tables_do_not_become_the_owners(t *testing.T) {
	t.Parallel()
	for name, attack := range map[string]struct{ role, table, statement string }{
		"a partition is made": {"supplyhub_api", "webhook_partitions", `SELECT advance_webhook_partitions(0, 1)`},
		"a partition is dropped": {"supplyhub_api", "webhook_partitions",
			`SELECT drop_webhook_partition(first_uid) FROM webhook_partitions`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			owner := databasetest.Postgres(t)
			databasetest.Script(t, owner, "../../deployments/postgres-roles.sql")
			admin, intruder := session(t, owner), session(t, databasetest.As(t, owner, attack.role))
			must := func(conn *sql.Conn, statement string) {
				t.Helper()
				if _, err := conn.ExecContext(t.Context(), statement); err != nil {
					t.Fatalf("%s: %v", statement, err)
				}
			}
			for _, statement := range prepared(attack.role) {
				must(admin, statement)
			}
			first := fmt.Sprintf(impostor[0], attack.table)
			if _, err := intruder.ExecContext(t.Context(), first); err == nil ||
				!strings.Contains(err.Error(), "permission denied to create temporary tables") {
				t.Fatalf("%s: %v", first, err)
			}
			must(admin, `DO $$ BEGIN EXECUTE format('GRANT TEMPORARY ON DATABASE %I TO PUBLIC', current_database()); END $$`)
			for _, statement := range impostor {
				must(intruder, fmt.Sprintf(statement, attack.table))
			}
			must(intruder, attack.statement)
		})
	}
}

// A table that a later version makes holds what no role was meant to see, until the script says so.
func TestRights_to_tables_to_come_are_not_given_beforehand(t *testing.T) {
	t.Parallel()
	owner := databasetest.Postgres(t)
	databasetest.Script(t, owner, "../../deployments/postgres-roles.sql")
	admin := session(t, owner)
	for _, statement := range []string{`CREATE TABLE later (key text)`, `CREATE VIEW of_later AS SELECT * FROM later`,
		`SELECT advance_webhook_partitions((extract(epoch FROM now())::bigint) * 1000000, 1)`} {
		if _, err := admin.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	for _, role := range []string{"supplyhub_api", "supplyhub_worker"} {
		var readable string
		err := admin.QueryRowContext(t.Context(), `SELECT coalesce(string_agg(relname, ' '), '') FROM pg_class
			WHERE relname ~ 'later|^webhook_.*_[0-9]{8}$' AND relkind IN ('r', 'v')
				AND has_table_privilege($1, oid, 'SELECT, INSERT, UPDATE, DELETE')`, role).Scan(&readable)
		if err != nil || readable != "" {
			t.Errorf("%s may read or change %s before it was granted: %v", role, readable, err)
		}
	}
}

// prepared is a supplier with a receiver, a partition that is over, and what a role has with RETENTION_DAYS.
func prepared(role string) []string {
	return []string{
		`INSERT INTO suppliers (id, name, webhook_url, active, scopes, access_ttl, refresh_ttl, created_at, updated_at)
			VALUES ('sup_a', 'A', 'https://a.example', true, '', 1, 1, 0, 0)`,
		`UPDATE webhook_partitions SET closed_at = 1`,
		`GRANT SELECT, UPDATE ON webhook_partitions TO ` + role,
		`GRANT EXECUTE ON FUNCTION advance_webhook_partitions(bigint, bigint), drop_webhook_partition(bigint),
			delete_webhook_table() TO ` + role,
	}
}

// session is a single connection.
func session(t *testing.T, address string) *sql.Conn {
	t.Helper()
	db, err := sql.Open("pgx", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return conn
}
