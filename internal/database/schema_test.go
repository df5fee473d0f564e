package database_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"
	"github.com/pressly/goose/v3/lock"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// ahead notes a migration that this build does not know, so many versions after its own.
func ahead(t *testing.T, db *database.DB, versions int) {
	t.Helper()
	exec(t.Context(), t, db, `INSERT INTO schema_versions (version_id, is_applied)
		SELECT max(version_id) + `+strconv.Itoa(versions)+`, `+
		map[database.Engine]string{database.Postgres: "true", database.SQLite: "1"}[db.Engine()]+` FROM schema_versions`)
}

func TestSchema_of_the_next_version_is_served_and_of_a_later_one_refused(t *testing.T) {
	t.Parallel()
	for versions, served := range map[int]bool{0: true, 1: true, 2: false, 99: false} {
		t.Run(strconv.Itoa(versions), func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				ahead(t, db, versions)
				if err := db.Migrate(t.Context()); served != (err == nil) || err != nil && !errors.Is(err, database.ErrSchema) {
					t.Errorf("Migrate: %v", err)
				}
				if err := db.CheckSchema(t.Context()); (versions == 0) != (err == nil) || err != nil &&
					!strings.Contains(err.Error(), "newer") {
					t.Errorf("CheckSchema: %v", err)
				}
			})
		})
	}
}

func TestCheckSchema_says_that_a_migration_is_missing_and_makes_nothing(t *testing.T) {
	t.Parallel()
	for name, db := range map[string]*database.DB{
		"postgres": raw(t, databasetest.EmptyPostgres(t), ""), "sqlite": raw(t, "", filepath.Join(t.TempDir(), "x.db")),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for range 2 {
				if err := db.CheckSchema(t.Context()); !errors.Is(err, database.ErrSchema) ||
					!strings.Contains(err.Error(), "api migrate") {
					t.Errorf("%v", err)
				}
			}
			if err := db.From(t.Context()).Exec(`SELECT 1 FROM schema_versions`).Error; err == nil {
				t.Error("a look at the version made a table")
			}
		})
	}
}

// released holds the SHA-256 of every migration of a released version: one that was released is never edited. A release
// adds its lines by `make release-schema`, and has at most one migration that the release before has not: the schema of
// version n+1 is one migration ahead of version n.
const released = "testdata/released.txt"

func TestMigrations_that_were_released_are_not_edited(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(released)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]map[string]bool{} // of each release, its migrations' numbers
	for line := range strings.Lines(string(content)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || fields[0] == "#" {
			continue
		}
		if len(fields) != 3 {
			t.Fatalf("not a release, a digest and a file: %s", line)
		}
		release, digest, file := fields[0], fields[1], fields[2]
		migration, err := os.ReadFile(filepath.Join("migrations", file))
		if err != nil {
			t.Error(err)
			continue
		}
		if sum := sha256.Sum256(migration); hex.EncodeToString(sum[:]) != digest {
			t.Errorf("%s was released with %s and is edited", file, release)
		}
		if versions[release] == nil {
			versions[release] = map[string]bool{}
		}
		number, _, _ := strings.Cut(filepath.Base(file), "_")
		versions[release][number] = true
	}
	for release, numbers := range versions {
		if len(numbers) > 1 {
			t.Errorf("%s has %d migrations, at most one lets an upgrade roll", release, len(numbers))
		}
	}
}

func TestMigrate_says_what_it_waits_for_and_takes_the_lock_of_a_process_that_died(t *testing.T) {
	t.Parallel()
	url, path := databasetest.EmptyPostgres(t), filepath.Join(t.TempDir(), "x.db")
	exec(t.Context(), t, raw(t, url, ""), `CREATE TABLE goose_lock (
			lock_id bigint NOT NULL PRIMARY KEY, locked boolean NOT NULL DEFAULT false,
		locked_at timestamptz NULL, locked_by text NULL, lease_expires_at timestamptz NULL, updated_at timestamptz NULL)`)
	exec(t.Context(), t, raw(t, url, ""), `INSERT INTO goose_lock VALUES (`+strconv.FormatInt(lock.DefaultLockID, 10)+
		`, true, now(), 'dead', 'infinity', now())`)
	another := flock.New(path + ".lock")
	if err := another.Lock(); err != nil {
		t.Fatal(err)
	}
	for name, died := range map[string]func(t *testing.T){
		"postgres": func(t *testing.T) {
			exec(t.Context(), t, raw(t, url, ""), `UPDATE goose_lock SET lease_expires_at = now()`)
		},
		"sqlite": func(t *testing.T) {
			if err := another.Unlock(); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var log written
			config := database.Config{Path: path, Log: slog.New(slog.NewTextHandler(&log, nil))}
			if name == "postgres" {
				config.URL, config.Path = url, ""
			}
			db, err := database.Open(t.Context(), config)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			stopped, stop := context.WithCancel(t.Context())
			defer stop()
			for _, ctx := range []context.Context{stopped, t.Context()} {
				log.Reset()
				migrated := make(chan error, 1)
				go func() { migrated <- db.Migrate(ctx) }()
				for !strings.Contains(log.String(), "waiting for another process's migration") {
					select {
					case err := <-migrated:
						t.Fatalf("it took the lock: %v", err)
					case <-time.After(10 * time.Millisecond):
					}
				}
				if stop(); ctx == stopped {
					if err := <-migrated; !errors.Is(err, context.Canceled) {
						t.Fatalf("one that was stopped: %v", err)
					}
					continue
				}
				died(t)
				if err := <-migrated; err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
