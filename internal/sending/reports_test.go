package sending_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
)

// Faults that users of other senders reported and that must not happen here. RELIABILITY.md names the tests of all of
// them.

func TestRedeliver_works_every_time(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{})
		r.add(event("acme", 1, 1))
		r.settled()
		for n := 2; n <= 4; n++ {
			if _, err := r.Redeliver(t.Context(), r.show("acme").ID); err != nil {
				t.Fatal(err)
			}
			r.Wake()
			wait.Until(t, "it is delivered again", func() bool { return len(r.acme.got()) == n })
			r.settled()
		}
	})
}

func TestUnknown_host_is_tried_again(t *testing.T) {
	t.Parallel()
	r := newRig(t, databasetest.Open(t, database.SQLite), setup{})
	r.suppliers.learn("lost", "http://receiver.invalid/hook", r.secret)
	r.add(event("lost", 1, 1))
	r.settled()
	if d := r.show("lost"); d.Status != deliveries.Dead || d.AttemptCount != 3 {
		t.Errorf("a name that does not resolve: %s after %d attempts, want the whole schedule", d.Status, d.AttemptCount)
	}
}

func TestDeliveries_share_few_connections(t *testing.T) {
	t.Parallel()
	const kept = 4 * time.Second // so long an idle connection stays open: on a busy machine some are opened again
	var opened, expired atomic.Int64
	var used sync.Map // connection → when its last request began
	r := newRig(t, databasetest.Open(t, database.SQLite), setup{})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	server.Config.ConnState = func(c net.Conn, s http.ConnState) {
		switch s {
		case http.StateNew:
			opened.Add(1)
		case http.StateActive:
			used.Store(c, time.Now())
		case http.StateClosed:
			if at, _ := used.Load(c); at != nil && time.Since(at.(time.Time)) >= kept { //nolint:forcetypeassert // as stored
				expired.Add(1)
			}
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	r.suppliers.learn("busy", server.URL, r.secret)
	for id := range 400 {
		r.add(event("busy", int64(id+1), 1))
	}
	r.settled()
	if n := opened.Load(); n < 1 || n-expired.Load() > 32 { // twice the concurrency
		t.Errorf("400 deliveries opened %d connections, of which %d were closed after %v", n, expired.Load(), kept)
	}
}

func TestAttempt_whose_result_cannot_be_written_is_written_later(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.SQLite)
	answered := make(chan struct{})
	r := newRig(t, db, setup{acme: func(int, http.ResponseWriter, *http.Request) { <-answered }})
	r.add(event("acme", 1, 1))
	wait.Until(t, "the attempt is under way", func() bool { return len(r.acme.got()) == 1 })
	rename := func(from, to string) {
		if err := db.From(t.Context()).Exec("ALTER TABLE " + from + " RENAME TO " + to).Error; err != nil {
			t.Fatal(err)
		}
	}
	rename("webhook_attempts", "gone")
	close(answered)
	hold := time.NewTimer(300 * time.Millisecond) // three tries to write it down
	<-hold.C
	rename("gone", "webhook_attempts")
	r.settled()
	d := r.show("acme")
	if d.Status != deliveries.Delivered || d.AttemptCount != 1 || d.Attempts[0].Status == nil {
		t.Errorf("got %+v", d)
	}
	if n := len(r.acme.got()); n != 1 {
		t.Errorf("it was sent %d times", n)
	}
}
