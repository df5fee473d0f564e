package databasetest

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

const (
	templateLock = 7_281_993_055 // the advisory lock under which the template is made; any number that is not in use
	adminTimeout = time.Minute   // a busy machine copies a database slowly
)

// Postgres returns the address of a fresh migrated PostgreSQL database, dropped at the end of the test; see also
// CitusWorkers.
func Postgres(tb testing.TB) string {
	tb.Helper()
	template, err := postgresTemplate()
	if err != nil {
		tb.Fatal(err)
	}
	address := create(tb, template)
	if os.Getenv(CitusWorkers) != "" {
		spread(tb, address)
	}
	return address
}

// EmptyPostgres is Postgres without any migration applied.
func EmptyPostgres(tb testing.TB) string {
	tb.Helper()
	return create(tb, "template0")
}

// Latin1Postgres is EmptyPostgres with an encoding that the service refuses.
func Latin1Postgres(tb testing.TB) string {
	tb.Helper()
	return create(tb, "template0 ENCODING 'LATIN1'")
}

// Script runs a file of SQL statements in the database at the address.
func Script(tb testing.TB, address, file string) {
	tb.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(tb.Context(), adminTimeout)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		tb.Fatal(err)
	}
	defer conn.Close(ctx)
	if _, err := conn.PgConn().Exec(ctx, string(content)).ReadAll(); err != nil {
		tb.Fatalf("%s: %v", file, err)
	}
}

// NeedsTools skips the test, and says so, where pg_dump and its like are older than the server.
func NeedsTools(tb testing.TB) {
	tb.Helper()
	if err := cluster.FindTools(); err != nil {
		fmt.Fprintf(os.Stderr, "SKIPPED: %s: %v\n", tb.Name(), err)
		tb.Skip(err)
	}
}

// Dump returns a file that pg_dump made of the database at the address.
func Dump(tb testing.TB, address string) (file string) {
	tb.Helper()
	NeedsTools(tb)
	file = filepath.Join(tb.TempDir(), "dump")
	if err := cluster.Run(tb.Context(), "pg_dump", "--format=custom", "--file="+file, address); err != nil {
		tb.Fatal(err)
	}
	return file
}

// Restored returns the address of a fresh database that pg_restore made of Dump's file.
func Restored(tb testing.TB, file string) (address string) {
	tb.Helper()
	address = EmptyPostgres(tb)
	if err := cluster.Run(tb.Context(), "pg_restore", "--exit-on-error", "--dbname="+address, file); err != nil {
		tb.Fatal(err)
	}
	return address
}

// As returns the address for another role, which the test server lets in without a password.
func As(tb testing.TB, address, role string) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

// Pooled returns the address of the same database through a PgBouncer of the mode, session or transaction, with its
// default configuration. It knows the test server's role and the users. Without a PgBouncer the test is skipped, and
// says so.
func Pooled(tb testing.TB, address, mode string, users ...string) string {
	tb.Helper()
	u, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	pooler, err := cluster.StartPooler(mode, address, append(users, u.User.Username())...)
	if errors.Is(err, cluster.ErrNoPooler) {
		fmt.Fprintf(os.Stderr, "SKIPPED: %s: %v\n", tb.Name(), err)
		tb.Skip(err)
	}
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(pooler.Remove)
	return pooler.Address()
}

func create(tb testing.TB, template string) string {
	tb.Helper()
	name := "supplyhub_test_" + strings.ToLower(rand.Text())
	address, err := databaseAddress(name)
	if err != nil {
		tb.Fatal(err)
	}
	err = onServer(func(ctx context.Context, conn *pgx.Conn) error {
		statement := "CREATE DATABASE " + name + " TEMPLATE " + template
		// Files are copied in half of the time that a copy through the log takes, the default where there is a choice.
		if conn.PgConn().ParameterStatus("server_version") >= "15" {
			statement += " STRATEGY FILE_COPY"
		}
		_, err := conn.Exec(ctx, statement)
		return err
	})
	if err != nil {
		tb.Fatalf("create a test database: %v", err)
	}
	tb.Cleanup(func() {
		if err := administer("DROP DATABASE IF EXISTS " + name + " WITH (FORCE)"); err != nil {
			tb.Errorf("drop the test database: %v", err)
		}
	})
	return address
}

// postgresTemplate is the name of the migrated database that all others are copied from. Its name holds the
// migrations' fingerprint, so that test processes of one version share it and others do not see it.
var postgresTemplate = sync.OnceValues(func() (string, error) {
	hash := sha256.New()
	err := fs.WalkDir(database.Migrations, "migrations/postgres", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, ".sql") {
			return err
		}
		content, err := database.Migrations.ReadFile(path)
		hash.Write(append([]byte(path+"\x00"), content...))
		return err
	})
	if err != nil {
		return "", err
	}
	name := fmt.Sprintf("supplyhub_template_%.8x", hash.Sum(nil))
	address, err := databaseAddress(name)
	if err != nil {
		return "", err
	}
	err = onServer(func(ctx context.Context, conn *pgx.Conn) error { return makeTemplate(ctx, conn, name, address) })
	if err != nil {
		return "", fmt.Errorf("make the PostgreSQL template: %w", err)
	}
	return name, nil
})

// makeTemplate lets one process work while the others wait; datistemplate marks a template that is finished.
func makeTemplate(ctx context.Context, conn *pgx.Conn, name, address string) error {
	if _, err := conn.Exec(ctx, "SELECT pg_advisory_lock($1)", templateLock); err != nil {
		return err // the lock ends with the connection
	}
	var ready bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1 AND datistemplate)",
		name).Scan(&ready)
	if err != nil || ready {
		return err
	}
	for _, statement := range []string{"DROP DATABASE IF EXISTS " + name + " WITH (FORCE)", "CREATE DATABASE " + name +
		" TEMPLATE template0"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	if err := migrate(ctx, address, ""); err != nil {
		return err
	}
	_, err = conn.Exec(ctx, "ALTER DATABASE "+name+" WITH IS_TEMPLATE true ALLOW_CONNECTIONS false")
	return err
}

func administer(statement string) error {
	return onServer(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, statement)
		return err
	})
}

// onServer runs fn on a connection to the maintenance database.
func onServer(fn func(context.Context, *pgx.Conn) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), adminTimeout)
	defer cancel()
	address, err := serverAddress()
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, address.String())
	if err != nil {
		return fmt.Errorf("reach the server that %s names: %w", Environment, err)
	}
	defer conn.Close(ctx)
	return fn(ctx, conn)
}

func databaseAddress(name string) (string, error) {
	address, err := serverAddress()
	if err != nil {
		return "", err
	}
	address.Path = "/" + name
	return address.String(), nil
}

func serverAddress() (*url.URL, error) {
	text := os.Getenv(Environment)
	if text == "" {
		return nil,
			errors.New(Environment + " is not set: run `make test`, or " +
				"`go run ./internal/database/databasetest/withpostgres go test ./...`")
	}
	address, err := url.Parse(text)
	if err != nil {
		return nil, errors.New(Environment + " is not a valid address")
	}
	return address, nil
}
