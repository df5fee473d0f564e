package webhooks_test

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/webhooks"
)

// A backlog of acme's that its workers need seconds for, until a new event has come.
const (
	backlogged   = 400
	backlogLimit = 4
	backlogCall  = 50 * time.Millisecond
)

// slowly answers after a while the calls that have waited, until those of so many other requests have come.
func slowly(others int64) (answer func(int, http.ResponseWriter, *http.Request), come <-chan struct{}) {
	fresh := make(chan struct{})
	var arrived atomic.Int64
	return func(n int, _ http.ResponseWriter, r *http.Request) {
		switch {
		case n == 1: // it makes the receiver known as one that answers fast
			return
		case !strings.HasPrefix(r.URL.Path, "/base/api/material-requests/1000"):
			if arrived.Add(1) == others {
				close(fresh)
			}
		}
		select {
		case <-fresh:
		case <-time.After(backlogCall):
		case <-r.Context().Done():
		}
	}, fresh
}

// putBehind stores events that have been due for a minute.
func putBehind(t *testing.T, db *database.DB, at *suppliers) {
	t.Helper()
	past := newRig(t, db, setup{idle: true, deps: func(d *webhooks.Deps) {
		d.Destinations, d.Now = at, func() time.Time { return time.Now().Add(-time.Minute) }
	}})
	events := make([]webhooks.Outgoing, backlogged)
	for i := range events {
		events[i] = event("acme", int64(1000_000+i), 1)
	}
	past.add(events...)
}

func TestNew_event_does_not_wait_for_the_backlog_of_a_receiver_that_answers_fast(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		answer, come := slowly(1)
		r := newRig(t, db, setup{acme: answer})
		r.suppliers.limit("acme", backlogLimit)
		r.add(event("acme", 1, 1))
		r.settled()
		putBehind(t, db, r.suppliers)
		r.Wake()
		until(t, "the backlog is sent", func() bool { return len(r.acme.got()) > 1 })
		r.add(event("acme", 7, 1))
		<-come
		if n := len(r.acme.got()); n > backlogged {
			t.Errorf("all %d of the backlog came first", backlogged)
		}
		r.settled()
		r.once(t, backlogged+2)
	})
}

func TestNew_event_that_is_handed_over_does_not_wait_for_the_backlog(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		answer, come := slowly(2)
		team := newTeam(t, db, 2, nil, answer)
		first := team.workers[0]
		first.suppliers.limit("acme", backlogLimit)
		first.add(event("acme", 1, 1))
		first.settled()
		putBehind(t, db, first.suppliers)
		until(t, "the backlog is sent", func() bool { return len(team.acme().got()) > 1 })
		for i, r := range team.workers { // one of them owns acme
			r.add(event("acme", int64(7+i), 1))
		}
		<-come
		if n := len(team.acme().got()); n > backlogged {
			t.Errorf("all %d of the backlog came first", backlogged)
		}
		first.settled()
		first.once(t, backlogged+3)
	})
}

// once makes sure that acme got so many deliveries, each one time.
func (r *rig) once(t *testing.T, want int) {
	t.Helper()
	seen := map[string]int{}
	for _, c := range r.acme.got() {
		if id := c.header.Get("webhook-id"); seen[id] > 0 {
			t.Errorf("%s came more than once", id)
		} else {
			seen[id]++
		}
	}
	if len(seen) != want {
		t.Errorf("%d deliveries of %d", len(seen), want)
	}
}
