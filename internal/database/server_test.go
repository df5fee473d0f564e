package database_test

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// with is the address with a parameter.
func with(t *testing.T, address, name, value string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	query.Set(name, value)
	u.RawQuery = query.Encode()
	return u.String()
}

func TestOpen_refuses_a_database_that_is_not_UTF8(t *testing.T) {
	t.Parallel()
	db := raw(t, databasetest.Latin1Postgres(t), "")
	for range 2 {
		if err := db.Migrate(t.Context()); err == nil || !strings.Contains(err.Error(), "LATIN1, it must be UTF8") {
			t.Errorf("%v", err)
		}
	}
}

func TestConnection_that_becomes_read_only_is_unavailable_and_given_up(t *testing.T) {
	t.Parallel()
	db := raw(t, databasetest.Postgres(t), "")
	exec(t.Context(), t, db, `SET default_transaction_read_only = on`)
	if err := db.Ping(t.Context()); errs.KindOf(err) != errs.Unavailable {
		t.Errorf("ping: %v", err)
	}
	exec(t.Context(), t, db, `SET default_transaction_read_only = on`)
	if err := db.From(t.Context()).Exec(insert).Error; errs.KindOf(err) != errs.Unavailable {
		t.Errorf("a change: %v", err)
	}
	exec(t.Context(), t, db, insert)
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("ping: %v", err)
	}
}

func TestOpen_finds_the_primary_whatever_target_session_attrs_says(t *testing.T) {
	t.Parallel()
	address := databasetest.Postgres(t)
	for _, value := range []string{"any", "read-write", "primary", "prefer-standby", "standby", "read-only"} {
		t.Run(value, func(t *testing.T) {
			t.Parallel()
			db := raw(t, with(t, address, "target_session_attrs", value), "")
			if err := db.Ping(t.Context()); err != nil {
				t.Errorf("ping: %v", err)
			}
			rows := db.Rows(5 * time.Second)
			defer rows.Close()
			for range 2 {
				if err := rows.Select(t.Context(), `SELECT 1`, func([][]byte) error { return nil }); err != nil {
					t.Errorf("read: %v", err)
				}
			}
		})
	}
}

func TestRows_reads_at_DATABASE_READ_URL(t *testing.T) {
	t.Parallel()
	primary, replica := databasetest.Postgres(t), databasetest.Postgres(t)
	db, err := database.Open(t.Context(), database.Config{URL: primary, ReadURL: replica,
		Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	rows := db.Rows(5 * time.Second)
	t.Cleanup(rows.Close)
	err = rows.Select(t.Context(), `SELECT current_database()`, func(f [][]byte) error {
		if got := string(f[0]); !strings.Contains(replica, got) {
			t.Errorf("read from %s", got)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

// reaches waits until the database has so many connections, and fails when it gets more.
func reaches(t *testing.T, address string, want int) {
	t.Helper()
	name, _, _ := strings.Cut(address[strings.LastIndex(address, "/supplyhub_test_")+1:], "?")
	other := raw(t, databasetest.Postgres(t), "")
	busy := func() (n int) {
		if err := other.From(t.Context()).Raw(`SELECT count(*) FROM pg_stat_activity
			WHERE datname = ? AND query LIKE '%pg_sleep%'`, name).Scan(&n).Error; err != nil {
			t.Fatal(err)
		}
		return n
	}
	wait.Until(t, fmt.Sprint(want, " connections"), func() bool { return busy() == want })
	for range 100 {
		if n := busy(); n > want {
			t.Errorf("%d connections, want %d", n, want)
		}
	}
}

func TestPoolMaxConns_holds_for_writers_and_readers_together(t *testing.T) {
	t.Parallel()
	for given, want := range map[string]int{"1": 4, "4": 4, "10": 10} {
		t.Run(given, func(t *testing.T) {
			t.Parallel()
			var log strings.Builder
			address := databasetest.Postgres(t)
			db, err := database.Open(t.Context(), database.Config{
				URL: with(t, address, "pool_max_conns", given), Log: slog.New(slog.NewTextHandler(&log, nil)),
			})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = db.Close() })
			rows := db.Rows(2 * wait.Limit)
			t.Cleanup(rows.Close)
			var group sync.WaitGroup
			ctx, cancel := context.WithCancel(t.Context())
			for range 20 {
				group.Go(func() { _ = db.From(ctx).Exec(`SELECT pg_sleep(300)`).Error })
				group.Go(func() { _ = rows.Select(ctx, `SELECT pg_sleep(200)`, func([][]byte) error { return nil }) })
			}
			reaches(t, address, want)
			cancel()
			group.Wait()
			if warned := strings.Contains(log.String(), "pool_max_conns"); warned != (given == "1") {
				t.Errorf("log: %s", log.String())
			}
		})
	}
}

func TestRows_a_caller_that_gives_up_waits_for_no_other_s_connection(t *testing.T) {
	t.Parallel()
	silent, err := net.Listen("tcp", "127.0.0.1:0") // it takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = silent.Close() })
	db, err := database.Open(t.Context(), database.Config{URL: databasetest.Postgres(t),
		ReadURL: "postgres://u@" + silent.Addr().String() + "/d?sslmode=disable", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	rows := db.Rows(time.Minute)
	t.Cleanup(rows.Close)
	read := func(ctx context.Context) chan error {
		end := make(chan error, 1)
		go func() { end <- rows.Select(ctx, `SELECT 1`, func([][]byte) error { return nil }) }()
		return end
	}
	patient, leave := context.WithCancel(t.Context())
	defer leave()
	waits := read(patient)
	conn, err := silent.Accept() // the patient one is connecting
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hurried, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	select {
	case err := <-read(hurried):
		if err == nil {
			t.Error("a statement was answered without a server")
		}
	case err := <-waits:
		t.Fatalf("the patient one ended first: %v", err)
	}
	leave()
	<-waits
}
