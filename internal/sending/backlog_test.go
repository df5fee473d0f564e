package sending_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sending"
)

// A backlog of acme's that its worker needs seconds for, as it sends one after the other.
const (
	backlogged  = 200
	backlogCall = 10 * time.Millisecond
	backlogIDs  = 1_000_000 // above those of other requests
)

// slowly answers after a while, until other requests of each worker have come.
func slowly(workers int) (answer func(int, http.ResponseWriter, *http.Request), come <-chan struct{}) {
	fresh := make(chan struct{})
	var mu sync.Mutex
	seen := map[int]bool{}
	return func(n int, _ http.ResponseWriter, r *http.Request) {
		var id int
		if _, err := fmt.Sscanf(r.URL.Path, "/base/api/material-requests/%d/", &id); err != nil || n == 1 {
			return // the first makes the receiver known as one that answers fast
		}
		mu.Lock()
		if id < backlogIDs && len(seen) < workers {
			if seen[id%workers] = true; len(seen) == workers {
				close(fresh)
			}
		}
		mu.Unlock()
		select {
		case <-fresh:
		case <-time.After(backlogCall):
		case <-r.Context().Done():
		}
	}, fresh
}

// overtaken adds events by each worker until one of each has come, and reports whether some of the backlog was left.
func overtaken(acme *receiver, come <-chan struct{}, workers ...*rig) bool {
	sent := func() (n int) {
		for _, c := range acme.got() {
			if strings.HasPrefix(c.path, "/base/api/material-requests/1000") {
				n++
			}
		}
		return n
	}
	for id := int64(2); sent() < backlogged; id++ {
		workers[id%int64(len(workers))].add(event("acme", id, 1))
		select {
		case <-come:
			return true
		case <-time.After(backlogCall):
		}
	}
	return false
}

// putBehind stores events that have been due for a minute.
func putBehind(t *testing.T, db *database.DB, at *suppliers) {
	t.Helper()
	past := newRig(t, db, setup{idle: true, deps: func(d *sending.Deps) {
		d.Destinations, d.Now = at, func() time.Time { return time.Now().Add(-time.Minute) }
	}})
	events := make([]round.Outgoing, backlogged)
	for i := range events {
		events[i] = event("acme", int64(backlogIDs+i), 1)
	}
	past.add(events...)
}

func TestNew_event_does_not_wait_for_the_backlog_of_a_receiver_that_answers_fast(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		answer, come := slowly(1)
		r := newRig(t, db, setup{acme: answer, deps: func(d *sending.Deps) { // fast, however busy this machine is
			d.Since = func(time.Time) time.Duration { return 10 * time.Millisecond }
		}})
		r.suppliers.limit("acme", 1)
		r.add(event("acme", 1, 1))
		r.settled()
		putBehind(t, db, r.suppliers)
		r.Wake()
		wait.Until(t, "the backlog is sent", func() bool { return len(r.acme.got()) > 1 })
		if !overtaken(r.acme, come, r) {
			t.Error("all of the backlog came first")
		}
	})
}
