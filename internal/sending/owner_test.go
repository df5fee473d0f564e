package sending_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sending"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// network carries messages to all workers of a test, which drop those of shards that they do not own; one that is down
// loses them.
type network struct {
	mu      sync.Mutex
	workers []*sending.Dispatcher
	down    atomic.Bool
	sent    atomic.Int64
}

func (n *network) publish(m round.Message) {
	n.sent.Add(1)
	if n.down.Load() {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, worker := range n.workers {
		worker.Woken(m)
	}
}

func (n *network) join(worker *sending.Dispatcher) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.workers = append(n.workers, worker)
}

// team is some workers on one database with the same receivers: own is the first worker's, each supplier has the one of
// acme.
type team struct {
	network
	db      *database.DB
	workers []*rig
	stops   []func() error
	leases  []int64 // of the workers when they shared the shards
}

func newTeam(t *testing.T, db *database.DB, n int, change func(*sending.Deps),
	acme func(int, http.ResponseWriter, *http.Request)) *team {
	t.Helper()
	team := &team{db: db}
	secret := webhook.NewSecret() // the service's own, the same in each worker
	for i := range n {
		r := newRig(t, db, setup{acme: acme, idle: true, deps: func(d *sending.Deps) {
			d.Publish, d.OwnSecrets = team.publish, []webhook.Secret{secret}
			if i > 0 {
				first := team.workers[0]
				d.Destinations, d.BaseURL = first.suppliers, first.own.URL
			}
			if change != nil {
				change(d)
			}
		}})
		team.workers = append(team.workers, r)
		team.join(r.Dispatcher)
	}
	for i := range 20 {
		team.workers[0].suppliers.learn(supplierName(i), team.acme().URL, team.workers[0].secret)
	}
	for _, r := range team.workers {
		team.stops = append(team.stops, r.start())
	}
	team.shared(t, n)
	team.leases = team.living(t)
	return team
}

func supplierName(i int) string { return fmt.Sprintf("supplier%02d", i) }

func (team *team) acme() *receiver { return team.workers[0].acme }

// shared waits until so many workers share the shards evenly.
func (team *team) shared(t *testing.T, n int) {
	t.Helper()
	wait.Until(t, "the shards are shared", func() bool {
		var counts []int
		err := team.db.From(t.Context()).Raw(`SELECT count(*) FROM webhook_shards WHERE worker IN (SELECT id FROM workers)
			GROUP BY worker`).Scan(&counts).Error
		total := 0
		for _, c := range counts {
			total += c
		}
		return err == nil && len(counts) == n && total == round.Shards && slices.Max(counts)-slices.Min(counts) <= 1
	})
}

// living returns the leases that workers hold.
func (team *team) living(t *testing.T) (leases []int64) {
	t.Helper()
	if err := team.db.From(t.Context()).Raw(`SELECT id FROM workers ORDER BY id`).Scan(&leases).Error; err != nil {
		t.Fatal(err)
	}
	return leases
}

// oneCallEach fails unless so many deliveries came, each in one attempt. A worker that a busy machine stops for longer
// than its lease has what it had begun made again by another one: then a delivery may have come in several. stopped
// workers were ended by the test.
func (team *team) oneCallEach(t *testing.T, want, stopped int) {
	t.Helper()
	seen := map[string]int{}
	for _, c := range team.acme().got() {
		seen[c.header.Get("webhook-id")]++
	}
	if len(seen) != want {
		t.Errorf("%d deliveries came, want %d", len(seen), want)
	}
	kept := slices.DeleteFunc(team.living(t), func(id int64) bool { return !slices.Contains(team.leases, id) })
	if len(kept) < len(team.leases)-stopped {
		t.Log("a worker lost its lease: calls may be repeated")
		return
	}
	for id, calls := range seen {
		if calls > 1 {
			t.Errorf("%s came %d times", id, calls)
		}
	}
	for _, d := range team.workers[0].list(deliveries.Filter{}) {
		if d.AttemptCount != 1 {
			t.Errorf("%s took %d attempts", d.ID, d.AttemptCount)
		}
	}
}

func TestDelivery_that_another_worker_stores_wakes_its_owner_and_goes_out_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		team := newTeam(t, db, 3, nil, nil)
		start := time.Now()
		for i := range 20 {
			team.workers[i%3].add(event(supplierName(i), int64(i), 1))
		}
		wait.Until(t, "all have arrived", func() bool { return len(team.acme().got()) >= 20 })
		t.Logf("the last of 20 came after %s", time.Since(start))
		team.workers[0].settled()
		if team.sent.Load() == 0 {
			t.Error("no owner was woken")
		}
		team.oneCallEach(t, 20, 0)
	})
}

func TestWake_up_that_is_lost_costs_a_moment_and_no_attempt(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		team := newTeam(t, db, 2, nil, nil)
		team.down.Store(true)
		for i := range 20 {
			team.workers[0].add(event(supplierName(i), int64(i), 1))
		}
		team.workers[0].settled()
		team.oneCallEach(t, 20, 0)
	})
}

func TestReceiver_sees_no_more_calls_at_once_than_its_limit_from_all_workers_while_they_come_and_go(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		const limit = 3
		var calls concurrency
		team := newTeam(t, db, 3, nil, func(_ int, _ http.ResponseWriter, r *http.Request) {
			defer calls.enter()()
			select {
			case <-time.After(20 * time.Millisecond):
			case <-r.Context().Done():
			}
		})
		first := team.workers[0]
		first.suppliers.limit("acme", limit)
		for i := range 60 {
			if i == 30 {
				if err := team.stops[2](); err != nil {
					t.Error(err)
				}
			}
			team.workers[i%2].add(event("acme", int64(i), 1))
		}
		first.settled()
		if m := calls.most.Load(); m > limit {
			t.Errorf("%d calls at once, the limit is %d", m, limit)
		}
		team.oneCallEach(t, 60, 1)
	})
}

func TestFailing_receiver_gets_one_probe_a_second_from_all_workers(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		team := newTeam(t, db, 3, func(d *sending.Deps) {
			d.Schedule = slices.Repeat([]time.Duration{time.Millisecond}, 40)
		},
			status(http.StatusServiceUnavailable))
		var events []round.Outgoing
		for i := range 20 {
			events = append(events, event("acme", int64(i), 1))
		}
		team.workers[0].add(events...)
		wait.Until(t, "it fails", func() bool {
			state, err := team.workers[1].ReceiverState(t.Context(), "acme")
			return err == nil && state.Failing() && state.FailingSince != nil &&
				strings.HasPrefix(state.LastError, "status 503: ")
		})
		from := time.Now().Add(500 * time.Millisecond) // calls begun before it counted as failing have ended by then
		probes := func() (at []time.Time) {
			for _, c := range team.acme().got() {
				if c.at.After(from) {
					at = append(at, c.at)
				}
			}
			return at
		}
		wait.Until(t, "there are three probes", func() bool { return len(probes()) >= 3 })
		for i, at := range probes()[1:] {
			if gap := at.Sub(probes()[i]); gap < 950*time.Millisecond {
				t.Errorf("a probe %s after the one before", gap)
			}
		}
	})
}

func TestPause_sends_nothing_and_keeps_everything_until_it_is_resumed(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{})
		if err := r.Pause(t.Context(), "acme", receivers.PausedBySupplier); err != nil {
			t.Fatal(err)
		}
		for i := range 5 {
			r.add(event("acme", int64(i), 1))
		}
		wait.Until(t, "the own endpoint has everything", func() bool { return len(r.own.got()) == 5 })
		if err := r.Pause(t.Context(), "acme", receivers.PausedByOperator); err != nil {
			t.Fatal(err)
		}
		if err := r.Resume(t.Context(), "acme", receivers.PausedBySupplier); errs.KindOf(err) != errs.Conflict {
			t.Errorf("a supplier resumes what the operator paused: %v", err)
		}
		state, err := r.ReceiverState(t.Context(), "acme")
		if err != nil || state.PausedBy != receivers.PausedByOperator || state.PausedAt == nil {
			t.Errorf("the state is %+v, %v", state, err)
		}
		if n := len(r.acme.got()); n != 0 {
			t.Errorf("%d calls while paused", n)
		}
		if err := r.Resume(t.Context(), "acme", receivers.PausedByOperator); err != nil {
			t.Fatal(err)
		}
		r.settled()
		if n := len(r.acme.got()); n != 5 {
			t.Errorf("%d calls after the resume", n)
		}
		wait.Until(t, "the success is known", func() bool {
			state, err := r.ReceiverState(t.Context(), "acme")
			return err == nil && state.PausedBy == "" && state.PausedAt == nil && state.LastSuccess != nil && state.Failures == 0
		})
	})
}

func TestReceiver_that_answers_410_or_fails_for_too_long_is_paused(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int{"410": http.StatusGone, "only failures": http.StatusInternalServerError} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				r := newRig(t, db, setup{acme: status(code), deps: func(d *sending.Deps) {
					d.PauseAfter, d.Schedule = time.Second, slices.Repeat([]time.Duration{time.Millisecond}, 30)
				}})
				r.add(event("acme", 1, 1))
				wait.Until(t, "it is paused", func() bool {
					state, err := r.ReceiverState(t.Context(), "acme")
					return err == nil && state.PausedBy == receivers.PausedByService
				})
				if failed := r.list(deliveries.Filter{Status: deliveries.Failed}); (len(failed) == 1) != (code == http.StatusGone) {
					t.Errorf("%d deliveries failed", len(failed))
				}
			})
		})
	}
}

func TestDelivery_without_a_receiver_waits_for_one(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db, setup{acme: status(http.StatusNotFound)})
		r.add(event("acme", 1, 1))
		r.settled()
		r.suppliers.mu.Lock()
		acme := r.suppliers.known["acme"]
		delete(r.suppliers.known, "acme")
		r.suppliers.mu.Unlock()
		id := r.show("acme").ID
		if _, err := r.Redeliver(t.Context(), id); err != nil {
			t.Fatal(err)
		}
		r.Wake()
		r.acme.mu.Lock()
		r.acme.answer = nil
		r.acme.mu.Unlock()
		wait.Until(t, "it is set aside", func() bool {
			return r.count(`SELECT count(*) FROM webhook_receivers WHERE due_at IS NOT NULL`) == 0
		})
		r.suppliers.mu.Lock()
		r.suppliers.known["acme"] = acme
		r.suppliers.mu.Unlock()
		if err := r.Callable(t.Context(), "acme"); err != nil {
			t.Fatal(err)
		}
		r.settled()
		if d := r.show("acme"); d.Status != deliveries.Delivered || d.AttemptCount != 4 {
			t.Errorf("%s after %d attempts", d.Status, d.AttemptCount)
		}
	})
}
