package materials_test

import (
	"context"
	"fmt"
	"net/http"
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

func (h hangUp) Publish(...round.Round) { h.cancel() }

func TestSubmit_whose_caller_hangs_up_still_stores_the_request(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		caller, cancel := context.WithCancel(t.Context())
		p := newPipeline(t, db, func(d *materials.Deps) { d.Publisher = hangUp{cancel} })
		if err := p.Submit(caller, request("acme", 1, "SP-1")); err != nil { // what it holds is counted until it returns
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
