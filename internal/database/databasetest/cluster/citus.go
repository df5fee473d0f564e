//go:build unix

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
)

// ErrNoCitus says that the extension is not installed; it is only used where it is.
var ErrNoCitus = errors.New("PostgreSQL's extension Citus is not installed here")

// FindCitus returns ErrNoCitus unless Start's servers can load the extension.
func FindCitus() error {
	bin, err := findOrInstall()
	if err != nil {
		return err
	}
	dir, err := exec.Command(program(bin, "pg_config"), "--sharedir").Output()
	if err == nil {
		_, err = os.Stat(filepath.Join(strings.TrimSpace(string(dir)), "extension", "citus.control"))
	}
	if err != nil {
		return ErrNoCitus
	}
	return nil
}

// StartCitus starts servers that load the extension. The first is to be the coordinator.
func StartCitus(servers int, durable bool, more ...string) (all []*Cluster, err error) {
	more = append([]string{"shared_preload_libraries=citus", "max_prepared_transactions=300", "wal_level=logical",
		"max_worker_processes=64", "citus.enable_statistics_collection=off"}, more...)
	for range servers {
		one, err := Start(durable, more...)
		if err != nil {
			RemoveAll(all)
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// RemoveAll ends servers and deletes their files.
func RemoveAll(all []*Cluster) {
	for _, one := range all {
		one.Remove()
	}
}

// Spread makes the migrated database at the coordinator's address one of Citus' and spreads its tables as a script
// does. It makes a database of that name at each worker, whose addresses are between commas; drop removes these.
func Spread(ctx context.Context, address, workers, script string, shards int) (drop func(context.Context) error,
	err error) {
	name, err := databaseName(address)
	if err != nil {
		return nil, err
	}
	content, err := os.ReadFile(script)
	if err != nil {
		return nil, err
	}
	list := strings.Split(workers, ",")
	drop = func(ctx context.Context) error {
		var failed error
		for _, worker := range list {
			failed = errors.Join(failed, Execute(ctx, worker, "DROP DATABASE IF EXISTS "+name+" WITH (FORCE)"))
		}
		return failed
	}
	statements := []string{"CREATE EXTENSION citus",
		fmt.Sprintf("ALTER DATABASE %s SET citus.shard_count = %d", name, shards),
		node("citus_set_coordinator_host", address)}
	for _, worker := range list {
		there, err := url.Parse(worker)
		if err != nil {
			return drop, errors.New("a worker's address is not valid")
		}
		there.Path = "/" + name
		err = errors.Join(Execute(ctx, worker, "CREATE DATABASE "+name), Execute(ctx, there.String(),
			"CREATE EXTENSION citus"))
		if err != nil {
			return drop, err
		}
		statements = append(statements, node("citus_add_node", worker))
	}
	if err := Execute(ctx, address, statements...); err != nil {
		return drop, err
	}
	return drop, Execute(ctx, address, string(content))
}

func databaseName(address string) (string, error) {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return "", errors.New("the coordinator's address is not valid")
	}
	return config.Database, nil
}

// node returns the call that makes a server known, by its socket's directory too.
func node(function, address string) string {
	config, err := pgx.ParseConfig(address)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("SELECT %s('%s', %d)", function, config.Host, config.Port)
}

// Execute runs statements on a connection of its own.
func Execute(ctx context.Context, address string, statements ...string) error {
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range statements {
		if _, err := conn.PgConn().Exec(ctx, statement).ReadAll(); err != nil {
			return fmt.Errorf("%.60s: %w", statement, err)
		}
	}
	return nil
}
