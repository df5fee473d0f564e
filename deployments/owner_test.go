//go:build unix

package deployments_test

import (
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

// bare is a server as PostgreSQL's image makes it: the superuser postgres and an empty database. The answer is the
// address of that for a role.
func bare(t *testing.T) func(role string) string {
	t.Helper()
	c, err := cluster.Start(false)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Remove)
	as := func(role string) string {
		u, err := url.Parse(c.Address())
		if err != nil {
			t.Fatal(err)
		}
		u.User, u.Path = url.User(role), "/supplyhub"
		return u.String()
	}
	if err := cluster.Execute(t.Context(), c.Address(), `CREATE ROLE postgres SUPERUSER LOGIN`,
		`CREATE DATABASE supplyhub TEMPLATE template0`); err != nil {
		t.Fatal(err)
	}
	if err := cluster.Execute(t.Context(), as("postgres"), `ALTER ROLE supplyhub RENAME TO unused`,
		`ALTER DATABASE supplyhub OWNER TO postgres`); err != nil {
		t.Fatal(err)
	}
	return as
}

// scripts runs files by psql, as compose.yaml does.
func scripts(t *testing.T, address string, files ...string) {
	t.Helper()
	args := []string{address, "-q", "-v", "ON_ERROR_STOP=1"}
	for _, file := range files {
		args = append(args, "-f", file)
	}
	cmd := exec.CommandContext(t.Context(), "psql", args...)
	cmd.Env = append(os.Environ(), "RETENTION_DAYS=30")
	for _, role := range []string{"OWNER", "API", "WORKER", "TRACKER"} {
		cmd.Env = append(cmd.Env, "POSTGRES_"+role+"_PASSWORD=p'"+role)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", files, err, out)
	}
}

// The owner is not the server's superuser, which runs programs: an intruder may run code as the owner.
func TestCompose_has_an_owner_that_makes_all_and_is_no_superuser(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("psql"); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: %s: psql is not on this machine\n", t.Name())
		t.Skip(err)
	}
	as := bare(t)
	scripts(t, as("postgres"), "postgres-owner.sql")
	for range 2 { // the second time is an upgrade
		db, err := database.Open(t.Context(), database.Config{URL: as("supplyhub"), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		if err := db.Migrate(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		scripts(t, as("supplyhub"), "postgres-roles.sql", "postgres-logins.sql")
	}
	conn, err := pgx.Connect(t.Context(), as("supplyhub"))
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
		var login, temporary, member bool
		err := conn.QueryRow(t.Context(), `SELECT rolcanlogin, has_database_privilege(oid, current_database(), 'TEMPORARY'),
			pg_has_role(oid, 'supplyhub', 'MEMBER') FROM pg_roles WHERE rolname = $1`, role).Scan(&login, &temporary, &member)
		if err != nil || !login || temporary || member {
			t.Errorf("%s: %v, logs in %t, makes temporary tables %t, may become the owner %t", role, err, login, temporary,
				member)
		}
	}
}
