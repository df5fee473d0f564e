package sending

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/round"
)

func TestLease_that_is_stale_is_judged_by_the_next_renewal(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]int64{"it is renewed": 7, "it was lost": 0, "another one was got": 8} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLease()
			l.set(7, time.Now().Add(-2*leaseLife))
			held := make(chan bool)
			go func() { held <- l.held(t.Context(), 7) }()
			select {
			case is := <-held:
				t.Fatalf("held is %v before any renewal", is)
			case <-time.After(50 * time.Millisecond):
			}
			l.set(next, time.Now())
			if is := <-held; is != (next == 7) {
				t.Errorf("held is %v", is)
			}
		})
	}
}

func TestLease_begins_nothing_that_another_worker_may_take_over_before_a_short_call_ends(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		ago  time.Duration
		want int64
	}{
		"renewed just now":                {0, 7},
		"one renewal is late":             {leaseRenew, 7},
		"a short call may be made again":  {leaseLife - leaseRenew, 0},
		"others may take it over already": {leaseLife, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLease()
			l.set(7, time.Now().Add(-tt.ago))
			ended, cancel := context.WithCancel(t.Context())
			cancel() // held waits for no renewal
			if id, held := l.worker(), l.held(ended, 7); id != tt.want || held != (tt.want == 7) {
				t.Errorf("it begins as worker %d, and its calls: %v; want worker %d", id, held, tt.want)
			}
		})
	}
}

func TestAttempt_that_waited_for_the_lease_sees_a_pause_that_came_meanwhile(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newIdle(t, db)
		d.lease.set(8, time.Now().Add(-leaseBegin))
		j := job{Begun: deliveries.Begun{ID: "msg_1000a", Destination: "acme", Worker: 8},
			looked: time.Now().Add(-pauseUnseen)}
		ended := make(chan dispatch.Report, 1)
		go d.attempt(j, func(r dispatch.Report) (streak dispatch.Streak) {
			ended <- r
			return streak
		})
		select {
		case r := <-ended:
			t.Fatalf("it ended without a lease: %+v", r)
		case <-time.After(50 * time.Millisecond):
		}
		if err := db.From(t.Context()).Exec(`INSERT INTO webhook_receivers (supplier_id, shard, paused_at, paused_by,
			updated_at) VALUES ('acme', 0, 1, 'operator', 1)`).Error; err != nil {
			t.Fatal(err)
		}
		d.lease.set(8, time.Now())
		if r := <-ended; !r.Void {
			t.Errorf("it was sent: %+v", r)
		}
	})
}

func TestAttempt_whose_look_for_a_pause_outlasted_the_lease_waits_for_the_next_renewal_and_is_sent(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	d := newIdle(t, db)
	tx := db.From(t.Context()).Begin()
	defer tx.Rollback()
	if err := tx.Exec(`LOCK TABLE webhook_receivers IN ACCESS EXCLUSIVE MODE`).Error; err != nil {
		t.Fatal(err)
	}
	d.lease.set(8, time.Now().Add(50*time.Millisecond-leaseBegin))
	j := job{Begun: deliveries.Begun{ID: "msg_1000a", Destination: "acme", Worker: 8, Series: 1},
		looked: time.Now().Add(-pauseUnseen)}
	ended := make(chan dispatch.Report, 1)
	go d.attempt(j, func(r dispatch.Report) (streak dispatch.Streak) {
		ended <- r
		return streak
	})
	wait.Until(t, "the lease is late", func() bool { return d.lease.worker() == 0 })
	if err := tx.Rollback().Error; err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-ended:
		t.Fatalf("it ended without a lease: %+v", r)
	case <-time.After(50 * time.Millisecond):
	}
	d.lease.set(8, time.Now())
	if r := <-ended; r.Void {
		t.Errorf("it was not sent: %+v", r)
	}
}

// One supplier that pauses its receiver again and again once undid the first attempts of all in its shard.
func TestAttempt_asks_when_a_receiver_of_its_shard_was_paused_and_is_sent_if_it_was_another_one(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newIdle(t, db)
		begun := time.Now()
		d.Woken(round.Message{Shard: round.ShardOf("acme"), Paused: true})
		for _, paused := range []bool{false, true} {
			if paused {
				databasetest.Exec(t, db, `INSERT INTO webhook_receivers (supplier_id, shard, paused_at, paused_by, updated_at)
					VALUES ('acme', 0, 1, 'operator', 1)`)
			}
			d.lease.set(8, time.Now())
			if r := attempted(d, job{Begun: deliveries.Begun{ID: "msg_1000a", Destination: "acme", Worker: 8, Series: 1,
				At: begun}, looked: begun}); r.Void != paused {
				t.Errorf("the receiver is paused: %v; the attempt's end: %+v", paused, r)
			}
		}
	})
}

// attempted returns the end of an attempt.
func attempted(d *Dispatcher, j job) (end dispatch.Report) {
	d.attempt(j, func(r dispatch.Report) (streak dispatch.Streak) {
		end = r
		return streak
	})
	return end
}

// A call that ends after its shard was lost would be all that is known when the shard comes back, whatever its owner
// learnt in between.
func TestAnswer_says_nothing_of_a_receiver_that_belongs_to_another_worker_by_now(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newIdle(t, db)
		for destination, want := range map[string]bool{"acme": true, deliveries.OwnEndpoint: false} {
			for _, owned := range [][]int{allShards(), nil} {
				d.ownership.owned = owned
				d.lease.set(8, time.Now())
				j := job{Begun: deliveries.Begun{ID: "msg_1000a", Destination: destination, Worker: 8, Series: 1},
					looked: time.Now()}
				if r := attempted(d, j); r.Void != (want && owned == nil) {
					t.Errorf("a call to %s, of an owner of %v, ended with %+v", destination, owned, r)
				}
			}
		}
	})
}

// The renewal and the one that moves shards ask at the same time.
func TestLease_is_held_at_every_beat_although_others_of_the_same_worker_come_between(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newIdle(t, db)
		worker, err := d.workers.newLease(t.Context(), time.Now().Add(leaseLife))
		if err != nil {
			t.Fatal(err)
		}
		var asking sync.WaitGroup
		for range 4 {
			asking.Go(func() {
				for range 50 {
					if m, err := d.ask(t.Context(), worker); err != nil || !m.held {
						t.Errorf("held is %v, %v", m.held, err)
						return
					}
				}
			})
		}
		asking.Wait()
	})
}

func TestOwner_counts_what_the_former_owner_has_in_flight_until_it_has_ended(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := New(Deps{DB: db, Now: time.Now, Concurrency: 16})
		t.Cleanup(d.Close)
		d.scheduler.Start()
		const me, former = 7, 8 // which begunRow's attempts are of
		begunRow(t, db, "msg_1000a", 1)
		m := members{live: []int64{me, former}, stay: []int64{me, former},
			owners: slices.Repeat([]int64{former}, round.Shards)}
		if err := d.own(t.Context(), nil, m); err != nil {
			t.Fatal(err)
		}
		claims := func() int {
			permits := d.scheduler.Claim([]dispatch.Destination{{Name: "acme", Limit: 1}})["acme"]
			for _, p := range permits {
				p.Cancel()
			}
			return len(permits)
		}
		m.owners = slices.Repeat([]int64{me}, round.Shards)
		if err := d.own(t.Context(), allShards(), m); err != nil {
			t.Fatal(err)
		}
		if n := claims(); n != 0 {
			t.Errorf("%d calls may be made while the former owner makes one, which is the limit", n)
		}
		if err := db.From(t.Context()).Exec(`UPDATE webhook_deliveries SET worker = NULL`).Error; err != nil {
			t.Fatal(err)
		}
		if err := d.own(t.Context(), allShards(), m); err != nil {
			t.Fatal(err)
		}
		if n := claims(); n != 1 {
			t.Errorf("%d calls may be made when that has ended", n)
		}
	})
}
