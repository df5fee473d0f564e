//go:build unix

package deployments_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/supplyhub/supplyhub/deployments/guide"
	"github.com/supplyhub/supplyhub/internal/app/apptest"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

// machine is a server as PostgreSQL's image makes it, with the superuser postgres.
type machine struct {
	*cluster.Cluster
	t *testing.T
}

func newMachine(t *testing.T) machine {
	t.Helper()
	if _, err := exec.LookPath("psql"); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: %s: psql is not on this machine\n", t.Name())
		t.Skip(err)
	}
	c, err := cluster.Start(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Remove)
	m := machine{c, t}
	m.execute(c.Address(), `CREATE ROLE postgres SUPERUSER LOGIN`)
	m.execute(m.as("postgres", "postgres"), `ALTER ROLE supplyhub RENAME TO unused`)
	return m
}

// as returns the address of a database for a role.
func (m machine) as(role, database string) string {
	m.t.Helper()
	u, err := url.Parse(m.Address())
	if err != nil {
		m.t.Fatal(err)
	}
	u.User, u.Path = url.User(role), "/"+database
	return u.String()
}

// owner and admin return the address of the service's database for its owner and for the superuser.
func (m machine) owner() string { return m.as("supplyhub", "supplyhub") }
func (m machine) admin() string { return m.as("postgres", "supplyhub") }

func (m machine) execute(address string, statements ...string) {
	m.t.Helper()
	if err := cluster.Execute(m.t.Context(), address, statements...); err != nil {
		m.t.Fatal(err)
	}
}

// installed makes the database, its owner, the schema and the roles as compose.yaml does.
func (m machine) installed() machine {
	m.t.Helper()
	m.execute(m.as("postgres", "postgres"), `CREATE DATABASE supplyhub TEMPLATE template0`)
	m.script(m.admin(), "postgres-owner.sql")
	m.migrate()
	m.script(m.owner(), "postgres-roles.sql", "postgres-logins.sql")
	return m
}

func (m machine) migrate() {
	m.t.Helper()
	db, err := database.Open(m.t.Context(), database.Config{URL: m.owner(), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		m.t.Fatal(err)
	}
	if err := db.Migrate(m.t.Context()); err != nil {
		m.t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		m.t.Fatal(err)
	}
}

// psql runs files, as compose.yaml does.
func psql(ctx context.Context, address string, files ...string) ([]byte, error) {
	args := []string{address, "-q", "-v", "ON_ERROR_STOP=1"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	cmd := exec.CommandContext(ctx, "psql", args...)
	cmd.Env = append(os.Environ(), "PGOPTIONS=-c supplyhub.retention_days=30")
	for _, role := range []string{"OWNER", "API", "WORKER", "TRACKER"} {
		cmd.Env = append(cmd.Env, "POSTGRES_"+role+"_PASSWORD=p'"+role)
	}
	return cmd.CombinedOutput()
}

func (m machine) script(address string, files ...string) (out string) {
	m.t.Helper()
	said, err := psql(m.t.Context(), address, files...)
	if err != nil {
		m.t.Fatalf("%v: %v\n%s", files, err, said)
	}
	return string(said)
}

// The owner is not the server's superuser, which runs programs: an intruder may run code as the owner.
func TestCompose_has_an_owner_that_makes_all_and_is_no_superuser(t *testing.T) {
	t.Parallel()
	m := newMachine(t).installed()
	m.migrate() // an upgrade
	m.script(m.owner(), "postgres-roles.sql", "postgres-logins.sql")
	conn, err := pgx.Connect(t.Context(), m.owner())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	for _, statement := range []string{`ALTER ROLE supplyhub_api SUPERUSER`, `COPY settings TO PROGRAM 'id'`,
		`SELECT pg_read_file('/etc/passwd')`, `CREATE DATABASE another`, `SET ROLE postgres`} {
		if _, err := conn.Exec(t.Context(), statement); err == nil || !strings.Contains(err.Error(), "42501") {
			t.Errorf("the owner: %s: %v", statement, err)
		}
	}
	for _, role := range []string{"supplyhub_api", "supplyhub_worker", "supplyhub_tracker"} {
		var login, temporary, creates, member bool
		err := conn.QueryRow(t.Context(), `SELECT rolcanlogin, has_database_privilege(oid, current_database(), 'TEMPORARY'),
			has_schema_privilege(oid, current_schema(), 'CREATE'), pg_has_role(oid, 'supplyhub', 'MEMBER')
			FROM pg_roles WHERE rolname = $1`, role).Scan(&login, &temporary, &creates, &member)
		if err != nil || !login || temporary || creates || member {
			t.Errorf("%s: %v, logs in %t, makes temporary tables %t, makes functions %t, may become the owner %t", role, err,
				login, temporary, creates, member)
		}
	}
}

// Before PostgreSQL 15, and in a database that comes from there, the schema public belongs to the superuser and
// everybody may create in it: a function there is called by the owner.
func TestRoles_are_refused_where_they_could_make_functions_that_the_owner_calls(t *testing.T) {
	t.Parallel()
	m := newMachine(t).installed()
	m.execute(m.admin(), `ALTER SCHEMA public OWNER TO postgres`, `GRANT USAGE, CREATE ON SCHEMA public TO PUBLIC`)
	out, err := psql(t.Context(), m.owner(), "postgres-roles.sql")
	line := regexp.MustCompile(`ALTER SCHEMA public OWNER TO supplyhub;`).FindString(string(out))
	if err == nil || line == "" {
		t.Fatalf("%v: %s", err, out)
	}
	m.execute(m.admin(), line)
	m.script(m.owner(), "postgres-roles.sql")
	if err := cluster.Execute(t.Context(), m.as("supplyhub_worker", "supplyhub"),
		`CREATE FUNCTION public.format(text, text) RETURNS text LANGUAGE sql AS 'SELECT 1'`); err == nil {
		t.Error("a worker makes a function in the owner's schema")
	}
}

// Roles that came from an older server with a move are no longer the owner's to change.
func TestLogins_keep_a_password_that_the_owner_may_not_change_and_say_so(t *testing.T) {
	t.Parallel()
	m := newMachine(t).installed()
	m.execute(m.admin(), `ALTER ROLE supplyhub NOCREATEROLE`, `REVOKE supplyhub_api, supplyhub_worker FROM supplyhub`)
	out := m.script(m.owner(), "postgres-roles.sql", "postgres-logins.sql")
	if !strings.Contains(out, "GRANT supplyhub_api TO supplyhub WITH ADMIN OPTION") {
		t.Errorf("it says %q", out)
	}
}

// Every `up` of compose, every upgrade of the chart and every upgrade by hand runs the script while processes work.
func TestRoles_that_are_given_again_take_no_right_away_for_a_moment(t *testing.T) {
	t.Parallel()
	m := newMachine(t).installed()
	ctx, stop := context.WithCancel(t.Context())
	var work sync.WaitGroup
	var done, refused atomic.Int64
	for role, statements := range map[string][]string{
		"supplyhub_api": {`SELECT count(*) FROM material_requests`, `DELETE FROM webhook_attempts WHERE false`,
			`SELECT count(*) FROM tracker_views`},
		"supplyhub_worker": {`SELECT count(*) FROM webhook_deliveries`,
			`UPDATE webhook_shards SET shard = shard WHERE false`},
	} {
		for _, statement := range statements {
			conn, err := pgx.Connect(t.Context(), m.as(role, "supplyhub"))
			if err != nil {
				t.Fatal(err)
			}
			work.Go(func() {
				for ctx.Err() == nil {
					if _, err := conn.Exec(context.WithoutCancel(ctx), statement); err != nil && refused.Add(1) == 1 {
						t.Errorf("%s: %s: %v", role, statement, err)
					}
					done.Add(1)
				}
				_ = conn.Close(context.WithoutCancel(ctx))
			})
		}
	}
	for range 12 {
		m.script(m.owner(), "postgres-roles.sql", "postgres-logins.sql")
	}
	stop()
	work.Wait()
	t.Logf("%d of %d statements were refused", refused.Load(), done.Load())
}

// typed runs a block of a guide, as a person types it in the project's directory after `make build`, with the
// superuser's address in psql's own variables.
func (m machine) typed(dir, block string) string {
	m.t.Helper()
	host, err := url.Parse(m.Address())
	if err != nil {
		m.t.Fatal(err)
	}
	cmd := exec.CommandContext(m.t.Context(), "sh", "-euc", block)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(m.Tool("pg_restore"))+":"+os.Getenv("PATH"),
		"OWNER_URL="+m.owner(),
		"PGHOST="+host.Query().Get("host"), "PGPORT="+host.Query().Get("port"), "PGUSER=postgres",
		"POSTGRES_OWNER_PASSWORD=powner", "SECRETS_KEY="+strings.Repeat("A", 43)+"=")
	out, err := cmd.CombinedOutput()
	if err != nil {
		m.t.Fatalf("%v: %v\n%s", block, err, out)
	}
	return string(out)
}

func TestBackupGuide_restores_a_dump_on_a_new_server(t *testing.T) {
	t.Parallel()
	databasetest.NeedsTools(t)
	dir := t.TempDir()
	here, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, target := range map[string]string{"deployments": here, "bin": filepath.Dir(apptest.Binary(t, "api"))} {
		if err := os.Symlink(target, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	blocks := guide.Blocks(t, "backup.md", "Production: PostgreSQL")
	if len(blocks) != 2 {
		t.Fatalf("%d blocks", len(blocks))
	}
	old, fresh := newMachine(t).installed(), newMachine(t)
	old.typed(dir, `DATABASE_URL="$OWNER_URL" bin/api supplier create --name Acme`)
	old.typed(dir, blocks[0])
	said := fresh.typed(dir, blocks[1])
	if strings.Contains(said, "WARNING") || strings.Contains(said, "ERROR") {
		t.Errorf("the guide's lines say %s", said)
	}
	fresh.script(fresh.owner(), "postgres-logins.sql")
	for _, role := range []string{"supplyhub_api", "supplyhub_worker"} {
		conn, err := pgx.Connect(t.Context(), fresh.as(role, "supplyhub"))
		if err != nil {
			t.Fatal(err)
		}
		var name string
		if err := conn.QueryRow(t.Context(), `SELECT name FROM suppliers`).Scan(&name); err != nil || name != "Acme" {
			t.Errorf("%s finds %q: %v", role, name, err)
		}
		_ = conn.Close(t.Context())
	}
}
