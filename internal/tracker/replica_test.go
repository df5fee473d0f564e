//go:build unix

package tracker_test

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/database/databasetest/cluster"
)

// replicated is a primary with a standby.
type replicated struct {
	t                *testing.T
	server           *cluster.Cluster // the primary's
	primary, standby *pgx.Conn
	url, replicaURL  string
}

func newReplicated(t *testing.T) *replicated {
	t.Helper()
	databasetest.NeedsTools(t)
	primary, err := cluster.Start(true) // commits are written
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(primary.Remove)
	standby, err := primary.Standby()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(standby.Remove)
	r := &replicated{t: t, server: primary, url: primary.Address(), replicaURL: standby.Address()}
	for address, conn := range map[string]**pgx.Conn{r.url: &r.primary, r.replicaURL: &r.standby} {
		if *conn, err = pgx.Connect(t.Context(), address); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// open returns a database whose rows are read at the address.
func (r *replicated) open(readURL string) *database.DB {
	r.t.Helper()
	db, err := database.Open(r.t.Context(),
		database.Config{URL: r.url, ReadURL: readURL, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = db.Close() })
	if err := db.Migrate(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	return db
}

// replayed waits until the standby has what the primary has.
func (r *replicated) replayed() {
	r.t.Helper()
	var at string
	err := r.primary.QueryRow(r.t.Context(), `SELECT pg_current_wal_lsn()::text`).Scan(&at)
	wait.Until(r.t, "the standby has what the primary has", func() (there bool) {
		if err == nil {
			err = r.standby.QueryRow(r.t.Context(), `SELECT pg_last_wal_replay_lsn() >= $1::text::pg_lsn`, at).Scan(&there)
		}
		return there || err != nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

// pause stops the standby where it is, or lets it go on.
func (r *replicated) pause(paused bool) {
	r.t.Helper()
	statement := map[bool]string{true: `SELECT pg_wal_replay_pause()`, false: `SELECT pg_wal_replay_resume()`}[paused]
	_, err := r.standby.Exec(r.t.Context(), statement)
	wait.Until(r.t, "the standby has stopped, or goes on", func() bool {
		var state string
		if err == nil {
			err = r.standby.QueryRow(r.t.Context(), `SELECT pg_get_wal_replay_pause_state()`).Scan(&state)
		}
		return (state == "paused") == paused || err != nil
	})
	if err != nil {
		r.t.Fatal(err)
	}
}

func TestCrawl_over_a_replica_that_is_behind_has_nothing_twice_and_nothing_missed(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	here := newFleet(t, r.open(r.replicaURL))
	elsewhere := serve(newService(t, r.open(r.replicaURL)))
	other := serve(newService(t, r.open(r.url))) // at a replica that is not behind
	one := func(label string) row { return row{Label: label, Device: 1, Loaded: "2026-11-20"} }
	here.load(one("r1"), one("r2"), one("r3"), one("r4"))
	r.replayed()
	for _, engine := range []http.Handler{here.engine, elsewhere} { // both remember a former crawl
		for _, path := range []string{"/list?pageSize=2", "/list?pageSize=2&page=2"} {
			get(t, engine, here.client.APIKey, path)
		}
	}
	here.load(one("r5"), one("r6"))
	r.replayed()
	r.pause(true)
	pages := map[string][]string{"1": {"r6", "r5"}, "2": {"r4", "r3"}, "3": {"r2", "r1"}}
	crawl := func(number string, engine http.Handler) {
		t.Helper()
		got := get(t, engine, here.client.APIKey, "/list?pageSize=2&page="+number)
		if diff := gocmp.Diff(page{6, pages[number]}, got); diff != "" {
			t.Errorf("page %s (-want +got):\n%s", number, diff)
		}
	}
	crawl("1", here.engine)
	for _, number := range []string{"2", "3"} {
		crawl(number, here.engine)
		crawl(number, elsewhere)
	}

	here.load(one("r7"), one("r8"))
	pages = map[string][]string{"1": {"r8", "r7"}, "2": {"r6", "r5"}}
	if got := get(t, other, here.client.APIKey, "/list?pageSize=2"); got.Total != 8 {
		t.Errorf("at the primary there are %d records, want 8", got.Total)
	}
	behind := httptest.NewRequest(http.MethodGet, "/list?pageSize=2&page=2", nil)
	behind.Header.Set("svc-public-hub-key", here.client.APIKey)
	w := httptest.NewRecorder()
	if here.engine.ServeHTTP(w, behind); w.Code != http.StatusServiceUnavailable || w.Header().Get("Retry-After") == "" {
		t.Errorf("a replica without what page 1 showed answers page 2 with %d %s", w.Code, w.Body)
	}
	r.pause(false)
	r.replayed()
	if got := get(t, here.engine, here.client.APIKey, "/list?pageSize=2&page=2"); got.Total != 8 {
		t.Errorf("page 2 has a total of %d when the replica has all, want 8", got.Total)
	}
}

// balanced returns an address whose new connections are to the primary, until standby is set.
func (r *replicated) balanced(standby *atomic.Bool) string {
	r.t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(r.t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = listener.Close() })
	parts := map[bool]url.Values{}
	for behind, address := range map[bool]string{false: r.url, true: r.replicaURL} {
		u, err := url.Parse(address)
		if err != nil {
			r.t.Fatal(err)
		}
		parts[behind] = u.Query()
	}
	serve := func(client net.Conn) {
		defer func() { _ = client.Close() }()
		to := parts[standby.Load()]
		server, err := net.Dial("unix", to.Get("host")+"/.s.PGSQL."+to.Get("port"))
		if err != nil {
			return
		}
		go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
		_, _ = io.Copy(client, server)
	}
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(client)
		}
	}()
	host, port, _ := net.SplitHostPort(listener.Addr().String())
	u, _ := url.Parse(r.url)
	u.RawQuery = url.Values{"host": {host}, "port": {port}, "sslmode": {"disable"}}.Encode()
	return u.String()
}

func TestPage_made_at_two_servers_leaves_no_count_of_the_one_that_is_behind(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	r.url += "&lock_timeout=30s"
	var standby atomic.Bool
	f := newFleet(t, r.open(r.balanced(&standby)))
	one := func(label string) row { return row{Label: label, Device: 1, Loaded: "2026-11-20"} }
	f.load(one("r1"), one("r2"))
	r.replayed()
	r.pause(true)
	f.load(one("r3"), one("r4"))

	// The page waits where it notes its crawl, between the state and the counts. Meanwhile its connection ends.
	tx, err := r.primary.Begin(t.Context())
	if err == nil {
		_, err = tx.Exec(t.Context(), `LOCK TABLE tracker_pins IN EXCLUSIVE MODE`)
	}
	if err != nil {
		t.Fatal(err)
	}
	answered := make(chan page)
	go func() { answered <- get(t, f.engine, f.client.APIKey, "/list?pageSize=2") }()
	watching, err := pgx.Connect(t.Context(), r.url)
	if err != nil {
		t.Fatal(err)
	}
	wait.Until(t, "the page waits, and its connection is one that the pool tries before it uses it", func() (there bool) {
		if err == nil {
			err = watching.QueryRow(t.Context(), `SELECT count(*) > 0 AND coalesce(min(clock_timestamp() - state_change)
				> interval '1.1 s', false) FROM pg_stat_activity WHERE application_name = 'supplyhub-reader'
				AND EXISTS (SELECT 1 FROM pg_locks WHERE relation = 'tracker_pins'::regclass AND NOT granted)`).Scan(&there)
		}
		return there || err != nil
	})
	if err != nil {
		t.Fatal(err)
	}
	standby.Store(true)
	if _, err := watching.Exec(t.Context(), `SELECT pg_terminate_backend(pid) FROM pg_stat_activity
		WHERE application_name = 'supplyhub-reader'`); err != nil {
		t.Fatal(err)
	}
	if err := tx.Commit(t.Context()); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(page{2, []string{"r2", "r1"}}, <-answered); diff != "" {
		t.Errorf("while the replica is behind (-want +got):\n%s", diff)
	}
	r.pause(false)
	r.replayed()
	for _, want := range []struct{ number, first, second string }{{"1", "r4", "r3"}, {"2", "r2", "r1"}} { // a new crawl
		got := get(t, f.engine, f.client.APIKey, "/list?pageSize=2&page="+want.number)
		if diff := gocmp.Diff(page{4, []string{want.first, want.second}}, got); diff != "" {
			t.Errorf("when it has all, page %s (-want +got):\n%s", want.number, diff)
		}
	}
}

func TestPage_of_a_replica_waits_little_for_a_primary_that_hangs(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	f := newFleet(t, r.open(r.replicaURL))
	one := func(label string) row { return row{Label: label, Device: 1, Loaded: "2026-11-20"} }
	f.load(one("r1"), one("r2"), one("r3"))
	r.replayed()
	f.get("/list?pageSize=1")
	if err := r.server.Freeze(); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ path, label string }{
		{"/list?pageSize=1&page=2", "r2"}, // of a crawl that this process noted
		{"/list?pageSize=2", "r3"},        // of one that cannot be noted
	} {
		begun := time.Now()
		got := f.get(c.path)
		took := time.Since(begun) // a connection waits for 15 s
		if got.Total != 3 || got.Labels[0] != c.label || took > 12*time.Second {
			t.Errorf("%s: %+v after %s", c.path, got, took)
		}
	}
	if err := r.server.Thaw(); err != nil {
		t.Fatal(err)
	}
}

func TestClient_that_was_changed_is_served_by_a_replica_that_is_behind(t *testing.T) {
	t.Parallel()
	r := newReplicated(t)
	here := newFleet(t, r.open(r.replicaURL))
	here.load(row{Label: "r1", Device: 1, Loaded: "2026-11-20"})
	r.replayed()
	r.pause(true)
	if _, err := here.service.RotateKey(t.Context(), here.client.ID, time.Hour); err != nil {
		t.Fatal(err)
	}
	if got := get(t, serve(newService(t, r.open(r.replicaURL))), here.client.APIKey, "/list"); got.Total != 1 {
		t.Errorf("the list has %d records, want 1", got.Total)
	}
}
