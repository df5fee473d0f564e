package materials_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/materials/work"
	"github.com/supplyhub/supplyhub/internal/round"
)

func TestLook_finds_what_is_due_to_its_own_shards_for_longer_than_a_message_takes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		other := round.ShardOf("other")
		p.enqueue("acme", 1)
		p.enqueue("other", 1)
		p.exec(`UPDATE material_requests SET due_at = due_at + 1000000 WHERE supplier_id = 'other'`)
		look := func(all bool, want int) {
			t.Helper()
			if n, err := p.Look(t.Context(), all); n != want || err != nil {
				t.Errorf("found %d, %v, want %d", n, err, want)
			}
		}
		look(true, 0) // it owns nothing
		p.Own(slices.DeleteFunc(allShards(), func(shard int) bool { return shard == other }), nil)
		look(false, 0) // its message may be on its way
		p.now.Add(time.Second.Microseconds())
		look(false, 1)
		look(false, 0) // it is in hand
		p.Own(allShards(), nil)
		look(false, 0)
		p.Own(allShards(), []int{other}) // its owner died: no message comes here
		look(false, 1)
		if err := p.Undelivered(); err != nil {
			t.Errorf("one look that finds something says %v", err)
		}
	})
}

func TestLook_clears_what_has_its_event_and_estimates_the_rest(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		const n = 300
		for id := range int64(n) {
			p.enqueue("acme", id)
		}
		for id := range int64(100) {
			if err := p.work("acme", id); err != nil {
				t.Fatal(err)
			}
		}
		p.Own(allShards(), allShards())
		p.run()
		wait.Until(t, "all are sent", func() bool { return len(p.events()) == n && len(p.world.sentKeys()) >= n })
		if due := p.due(); due != n-100 {
			t.Errorf("%d are due, want %d: those whose estimates are on their way", due, n-100)
		}
		if sent := p.world.sentKeys(); len(sent) != n {
			t.Errorf("%d events were sent", len(sent))
		}
	})
}

func TestLook_gives_every_supplier_its_turn_however_much_waits_for_others(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, shard, due_at,
				created_at, updated_at)
			WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 5000)
			SELECT 'burst', n, 'enqueued', '', '', '{}', '', n, ?, 1, 1, 1 FROM n`, round.ShardOf("burst"))
		p.exec(`INSERT INTO material_requests (supplier_id, id, status, digest, shop_code, body, trace_id, uid, shard, due_at,
				created_at, updated_at)
			WITH RECURSIVE n(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM n WHERE n < 1500)
			SELECT 's' || (10000 + n), 1, 'enqueued', '', '', '{}', '', 10000 + n, ?, 2, 1, 1 FROM n`, round.ShardOf("burst"))
		answer := make(chan struct{})
		defer close(answer)
		p.world.estimate = func(_ context.Context, r estimates.Request) (estimates.Result, error) {
			if r.SupplierID == "burst" {
				<-answer
			}
			return estimates.Result{}, nil
		}
		p.Own(allShards(), allShards())
		p.run()
		wait.Until(t, "all others are estimated", func() bool {
			p.now.Add(time.Second.Microseconds()) // a batch that failed on a busy machine is due again
			return len(p.events()) == 1500
		})
	})
}

func TestRun_estimates_other_suppliers_while_a_carriers_answers_take_long(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		answer := make(chan struct{})
		p.world.estimate = func(_ context.Context, r estimates.Request) (estimates.Result, error) {
			if r.SupplierID == "slow" {
				<-answer
			}
			return estimates.Result{}, nil
		}
		stop := p.run()
		var rounds []round.Round
		for id := range int64(600) {
			p.enqueue("slow", id)
			rounds = append(rounds, p.round("slow", id))
		}
		p.Take(rounds)
		for id := range int64(50) {
			p.enqueue("acme", id)
			p.Take([]round.Round{p.round("acme", id)})
		}
		wait.Until(t, "the others are estimated", func() bool { return len(p.world.sentKeys()) == 50 })
		close(answer)
		wait.Until(t, "and then the slow ones", func() bool { return len(p.world.sentKeys()) == 650 })
		stop()
		if events := p.events(); len(events) != 650 {
			t.Errorf("%d events", len(events))
		}
	})
}

func TestRun_that_ends_stores_what_it_was_estimating_and_leaves_the_rest_due(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		answer, asked := make(chan struct{}), make(chan struct{}, 1)
		p.world.estimate = func(context.Context, estimates.Request) (estimates.Result, error) {
			select {
			case asked <- struct{}{}:
			default:
			}
			<-answer
			return estimates.Result{}, nil
		}
		p.enqueue("acme", 1)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		p.Take([]round.Round{p.round("acme", 1)})
		<-asked
		cancel()
		p.enqueue("acme", 2)
		p.Take([]round.Round{p.round("acme", 2)})
		close(answer)
		if err := <-ended; err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"acme/1/1"}, p.events()); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	})
}

func TestUndelivered_says_that_the_queue_loses_messages_when_look_after_look_finds_some(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	p.Own(allShards(), nil)
	for id := range int64(3) {
		if err := p.Undelivered(); err != nil {
			t.Errorf("after %d looks: %v", id, err)
		}
		p.enqueue("acme", id)
		p.now.Add(time.Second.Microseconds())
		if n, err := p.Look(t.Context(), false); n != 1 || err != nil {
			t.Fatalf("found %d, %v", n, err)
		}
	}
	if err := p.Undelivered(); !errors.Is(err, work.ErrUndelivered) {
		t.Errorf("after three: %v", err)
	}
}

// Two workers that own a shard at the same time, as while it moves, store each event once.
func TestRun_of_two_workers_with_the_same_shards_stores_each_event_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		one, two := newPipeline(t, db, nil), newPipeline(t, db, nil)
		const n = 400
		var want []string
		for id := range int64(n) {
			supplier := fmt.Sprintf("s%d", id%7)
			one.enqueue(supplier, id)
			want = append(want, fmt.Sprintf("%s/%d/1", supplier, id))
		}
		slices.Sort(want)
		var running sync.WaitGroup
		for _, p := range []*pipeline{one, two} {
			running.Go(func() {
				p.Own(allShards(), allShards())
				p.run()
			})
		}
		running.Wait()
		wait.Until(t, "all are sent", func() bool {
			for _, p := range []*pipeline{one, two} {
				p.now.Add(time.Second.Microseconds()) // a batch that failed on a busy machine is due again
			}
			return len(one.world.sentKeys())+len(two.world.sentKeys()) >= n
		})
		sent := append(one.world.sentKeys(), two.world.sentKeys()...)
		slices.Sort(sent)
		if diff := cmp.Diff(want, sent); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
	})
}
