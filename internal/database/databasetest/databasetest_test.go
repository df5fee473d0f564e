package databasetest_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestEach_opens_both_engines_migrated(t *testing.T) {
	var mu sync.Mutex
	engines := map[database.Engine]bool{}
	t.Run("each", func(t *testing.T) {
		databasetest.Each(t, func(t *testing.T, db *database.DB) {
			if err := db.CheckSchema(t.Context()); err != nil {
				t.Error(err)
			}
			mu.Lock()
			defer mu.Unlock()
			engines[db.Engine()] = true
		})
	})
	if !engines[database.SQLite] || !engines[database.Postgres] {
		t.Errorf("ran on %v, want both engines", engines)
	}
}

func TestOpen_gives_each_test_a_database_of_its_own(t *testing.T) {
	t.Parallel()
	for _, engine := range []database.Engine{database.SQLite, database.Postgres} {
		t.Run(string(engine), func(t *testing.T) {
			t.Parallel()
			a, b := databasetest.Open(t, engine), databasetest.Open(t, engine)
			if err := a.From(t.Context()).Exec("CREATE TABLE mine (id INTEGER)").Error; err != nil {
				t.Fatal(err)
			}
			if err := b.From(t.Context()).Exec("INSERT INTO mine VALUES (1)").Error; err == nil {
				t.Error("one test sees another's table")
			}
		})
	}
}

func TestEmptyPostgres_has_no_migration(t *testing.T) {
	t.Parallel()
	db := databasetest.OpenURL(t, databasetest.EmptyPostgres(t), "")
	if err := db.CheckSchema(t.Context()); !errors.Is(err, database.ErrSchema) {
		t.Error(err)
	}
}

func TestPostgres_is_dropped_at_the_end(t *testing.T) {
	t.Parallel()
	var url string
	t.Run("a test", func(t *testing.T) {
		url = databasetest.Postgres(t)
		if err := databasetest.OpenURL(t, url, "").Ping(t.Context()); err != nil {
			t.Error(err)
		}
	})
	db := databasetest.OpenURL(t, url, "")
	if err := db.Ping(context.Background()); err == nil {
		t.Error("the database is still there")
	}
}

func BenchmarkPostgres(b *testing.B) {
	for b.Loop() {
		databasetest.Postgres(b)
	}
}
