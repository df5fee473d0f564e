package materials_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

func request(supplierID string, id int64, shop string) materials.Request {
	return materials.Request{SupplierID: supplierID, ID: id, ShopCode: shop, TraceID: "t",
		Materials: []materials.Material{{MaterialID: 1, Material: "Shelf", SKU: "S", Width: 1, Height: 1, Quantity: 1}}}
}

func TestSubmit_of_equal_requests_at_once_stores_one_and_publishes_it_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		one := newPipeline(t, db, nil)
		two := newPipeline(t, db, nil)
		atOnce(30, func(i int) {
			if err := []*pipeline{one, two}[i%2].Submit(t.Context(), request("acme", 1, "SP-1")); err != nil {
				t.Errorf("call %d: %v", i, err)
			}
		})
		published := append(one.world.takePublished(), two.world.takePublished()...)
		if diff := cmp.Diff([]string{"acme/1/1"}, published); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	})
}

func TestSubmit_of_different_requests_with_one_id_takes_exactly_one(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		one := newPipeline(t, db, nil)
		two := newPipeline(t, db, nil)
		var taken, refused atomic.Int64
		atOnce(30, func(i int) {
			err := []*pipeline{one, two}[i%2].Submit(t.Context(), request("acme", 1, fmt.Sprint(i)))
			switch {
			case err == nil:
				taken.Add(1)
			case errs.KindOf(err) == errs.Conflict:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
		if taken.Load() != 1 || refused.Load() != 29 {
			t.Errorf("%d taken, %d refused, want 1 and 29", taken.Load(), refused.Load())
		}
	})
}

func TestSubmit_from_two_replicas_of_overlapping_ids_never_deadlocks(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		one := newPipeline(t, db, nil)
		two := newPipeline(t, db, nil)
		const n = 400
		atOnce(2*n, func(i int) {
			p, id := one, i/2
			if i%2 == 1 {
				p, id = two, n-1-i/2
			}
			if err := p.Submit(t.Context(), request("acme", int64(id), "SP-1")); err != nil {
				t.Errorf("request %d: %v", id, err)
			}
		})
		if got := len(one.world.takePublished()) + len(two.world.takePublished()); got != n {
			t.Errorf("%d published, want %d", got, n)
		}
	})
}

// hangUp ends the caller's context while its request is on the way.
type hangUp struct{ cancel context.CancelFunc }

func (h hangUp) Publish(...materials.Queued) { h.cancel() }

func TestSubmit_whose_caller_hangs_up_still_stores_the_request(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		caller, cancel := context.WithCancel(t.Context())
		p := newPipeline(t, db, func(d *materials.Deps) { d.Publisher = hangUp{cancel} })
		if err := p.Submit(caller, request("acme", 1, "SP-1")); err != nil && !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
		if caller.Err() == nil {
			t.Fatal("the caller did not hang up")
		}
		expect(t, p.call(http.MethodGet, "/api/material-requests/1", "", "X-Supplier", "acme"), http.StatusOK)
	})
}

func TestSubmit_after_Close_is_unavailable(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	p.Close()
	if err := p.Submit(t.Context(), request("acme", 1, "SP-1")); errs.KindOf(err) != errs.Unavailable {
		t.Errorf("got %v", err)
	}
}

func TestSubmit_without_a_database_is_unavailable(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	p := newPipeline(t, db, nil)
	err := db.From(t.Context()).Exec(`SELECT pg_terminate_backend(pg_backend_pid())`).Error
	if errs.KindOf(err) != errs.Unavailable {
		t.Errorf("a killed connection gives %v", err)
	}
	if err := p.Submit(t.Context(), request("acme", 1, "SP-1")); err != nil && errs.KindOf(err) != errs.Unavailable {
		t.Errorf("the call after it: %v", err)
	}
	wait.Until(t, "the service works again",
		func() bool { return p.Submit(t.Context(), request("acme", 1, "SP-1")) == nil })
}

func TestSweep_publishes_what_no_message_names_any_more(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for id := range int64(4) {
			if err := p.Submit(t.Context(), request("acme", id, "SP-1")); err != nil {
				t.Fatal(err)
			}
		}
		p.world.takePublished()
		expect(t, p.deliverOwn(p.round("acme", 3), event("acme", 3, noon, "e1")), 200) // done
		sweep := func(below int64, want ...string) {
			t.Helper()
			n, err := p.sweep(below)
			if got := p.world.takePublished(); err != nil || n != len(want) || !slices.Equal(got, want) {
				t.Errorf("below %d: %d, %v, %v, want %v", below, n, got, err, want)
			}
		}
		third := *p.row("acme", 2).Ticket
		sweep(third, "acme/0/1", "acme/1/1")
		sweep(third)
		sweep(third+1, "acme/2/1")
	})
}

func TestSweep_by_two_replicas_at_once_publishes_each_request_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		one := newPipeline(t, db, nil)
		two := newPipeline(t, db, nil)
		const n = 1200
		atOnce(n, func(i int) {
			if err := one.Submit(t.Context(), request("acme", int64(i), "SP-1")); err != nil {
				t.Error(err)
			}
		})
		one.world.takePublished()
		last, err := db.LastNumber(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var total atomic.Int64
		atOnce(40, func(i int) { // one of them sweeps at a time
			swept, err := []*pipeline{one, two}[i%2].Sweep(t.Context(), last+1, 100)
			if err != nil {
				t.Error(err)
			}
			total.Add(int64(swept))
		})
		for swept := 1; swept > 0; total.Add(int64(swept)) {
			if swept, err = one.Sweep(t.Context(), last+1, 100); err != nil {
				t.Fatal(err)
			}
		}
		published := append(one.world.takePublished(), two.world.takePublished()...)
		slices.Sort(published)
		if len(published) != n || len(slices.Compact(published)) != n || total.Load() != n {
			t.Errorf("%d requests swept %d times, want %d", len(slices.Compact(published)), total.Load(), n)
		}
	})
}

func TestRunSweeper_refills_a_queue_that_lost_its_work_and_leaves_alone_what_waits_in_it(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	for id := range int64(3) {
		if err := p.Submit(t.Context(), request("acme", id, "SP-1")); err != nil {
			t.Fatal(err)
		}
	}
	first := p.world.takeMessages()[1].Subject
	p.world.hold(round.Backlog{First: first, Length: 2, Store: 1}, nil) // the message before it was lost
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.RunSweeper(ctx) }()
	published := func(want ...string) func() bool {
		return func() bool {
			got := p.world.takePublished()
			if len(got) > 0 && !slices.Equal(got, want) {
				t.Errorf("published %v, want %v", got, want)
			}
			return len(got) > 0
		}
	}
	wait.Until(t, "what was lost before the first message is published", published("acme/0/1"))
	p.world.hold(round.Backlog{}, errors.New("away"))
	p.world.hold(round.Backlog{Store: 2}, nil) // its store is gone
	wait.Until(t, "all that was old enough is published at once", published("acme/1/1", "acme/2/1"))
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func TestRunSweeper_publishes_what_was_lost_though_the_queue_is_never_empty(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	if err := p.Submit(t.Context(), request("acme", 1, "SP-1")); err != nil {
		t.Fatal(err)
	}
	p.world.takeMessages() // lost
	p.world.hold(round.Backlog{First: "mr.work.9999", Length: 100_000, Store: 1}, nil)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- p.RunSweeper(ctx) }()
	wait.Until(t, "it is published", func() bool { return slices.Contains(p.world.takePublished(), "acme/1/1") })
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Whatever order, spelling and company requests come in, each id keeps the first request that was accepted under it.
func TestSubmit_keeps_the_first_request_of_each_id(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		round := 0
		rapid.Check(t, func(t *rapid.T) {
			round++
			supplierID := fmt.Sprintf("s%d", round)
			kept := make(map[int64]string)
			for range rapid.IntRange(1, 6).Draw(t, "calls") {
				id, shop := rapid.Int64Range(1, 2).Draw(t, "id"), rapid.SampledFrom([]string{"a", "b"}).Draw(t, "shop")
				err := p.Submit(context.Background(), request(supplierID, id, shop))
				first, known := kept[id]
				if known && first != shop {
					if errs.KindOf(err) != errs.Conflict {
						t.Fatalf("a different request under a taken id: %v", err)
					}
					continue
				}
				if err != nil {
					t.Fatal(err)
				}
				kept[id] = shop
			}
		})
	})
}

func BenchmarkSubmit(b *testing.B) {
	databasetest.EachB(b, func(b *testing.B, db *database.DB) {
		flushers := 2
		if db.Engine() == database.SQLite {
			flushers = 1
		}
		s := materials.New(materials.Deps{DB: db, Now: time.Now, Publisher: nowhere{}, Flushers: flushers, Outbox: &world{}})
		defer s.Close()
		var id atomic.Int64
		b.SetParallelism(32)
		b.RunParallel(func(pb *testing.PB) {
			for pb.Next() {
				if err := s.Submit(context.Background(), request("acme", id.Add(1), "SP-1")); err != nil {
					b.Error(err)
				}
			}
		})
	})
}
