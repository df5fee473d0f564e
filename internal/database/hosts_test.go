package database_test

import (
	"context"
	"log/slog"
	"net"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

// silent is a server that takes connections and says so much and no more, and how many it has taken.
func silent(t *testing.T, says string) (port string, taken *atomic.Int64) {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(t.Context(), "tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	taken = new(atomic.Int64)
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			taken.Add(1)
			_, _ = conn.Write([]byte(says)) // or the caller is gone
			t.Cleanup(func() { _ = conn.Close() })
		}
	}()
	_, port, err = net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port, taken
}

// behind returns the address with a host before its own.
func behind(t *testing.T, address, host, port string) string {
	t.Helper()
	u, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query := u.Query()
	for name, first := range map[string]string{"host": host, "port": port} {
		query.Set(name, first+","+query.Get(name))
	}
	u.RawQuery = query.Encode()
	return u.String()
}

func TestHost_that_was_silent_is_not_asked_again_by_each_new_connection(t *testing.T) {
	t.Parallel()
	for host, says := range map[string]string{"127.0.0.1": "", "localhost": "N"} { // as a server without TLS begins
		t.Run(host, func(t *testing.T) {
			t.Parallel()
			port, taken := silent(t, says)
			db := raw(t, behind(t, databasetest.Postgres(t), host, port), "")
			rows := db.Rows(time.Minute)
			t.Cleanup(rows.Close)
			if err := db.Ping(t.Context()); err != nil {
				t.Fatal(err)
			}
			before := taken.Load()
			if before == 0 {
				t.Fatal("the first host was not asked")
			}
			nested := func(ctx context.Context) error { // each on a connection of its own
				return rows.Select(ctx, `SELECT 1`, func([][]byte) error { return nil })
			}
			for range 4 {
				inner := nested
				nested = func(context.Context) error { return db.InTx(t.Context(), "hold", inner) }
			}
			if err := nested(t.Context()); err != nil {
				t.Error(err)
			}
			if asked := taken.Load() - before; asked != 0 {
				t.Errorf("%d of five new connections asked it again", asked)
			}
		})
	}
}

func TestReplica_that_was_silent_is_not_asked_again_by_each_new_connection(t *testing.T) {
	t.Parallel()
	port, taken := silent(t, "")
	primary := databasetest.Postgres(t)
	db, err := database.Open(t.Context(), database.Config{URL: primary, Log: slog.New(slog.DiscardHandler),
		ReadURL: with(t, behind(t, primary, "127.0.0.1", port), "target_session_attrs", "prefer-standby")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	rows := db.Rows(time.Minute)
	t.Cleanup(rows.Close)
	read := func(each func([][]byte) error) error { return rows.Select(t.Context(), `SELECT 1`, each) }
	nested := func([][]byte) error { return nil } // each on a connection of its own
	if err := read(nested); err != nil {
		t.Fatal(err)
	}
	before := taken.Load()
	if before == 0 {
		t.Fatal("the replica was not asked")
	}
	for range 4 {
		inner := nested
		nested = func([][]byte) error { return read(inner) }
	}
	if err := read(nested); err != nil {
		t.Error(err)
	}
	if asked := taken.Load() - before; asked != 0 {
		t.Errorf("%d of four new connections asked it again", asked)
	}
}

func TestHosts_that_were_all_silent_are_asked_again(t *testing.T) {
	t.Parallel()
	server := ownServer(t)
	db := raw(t, andNowhere(t, server), "")
	if err := server.Freeze(); err != nil {
		t.Fatal(err)
	}
	for _, asked := range []string{"by a connection that there was", "by a new one"} {
		if err := db.Ping(t.Context()); err == nil {
			t.Error("the server is not silent, asked " + asked)
		}
	}
	if err := server.Thaw(); err != nil {
		t.Fatal(err)
	}
	if err := db.Ping(t.Context()); err != nil {
		t.Errorf("it answers again: %v", err)
	}
}
