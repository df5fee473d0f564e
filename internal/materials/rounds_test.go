package materials_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/materials/operator"
	"github.com/supplyhub/supplyhub/internal/round"
)

func TestRound_is_known_by_its_number_whatever_the_clocks_say(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		first := p.round("acme", 1)
		ahead := event("acme", 1, noon.Add(10*time.Minute), "first") // the worker's clock was ahead
		expect(t, p.deliverOwn(first, ahead), 200)
		expect(t, p.reestimate("acme", 1), 202)

		expect(t, p.deliverOwn(first, ahead), 200) // late, of the round before
		p.expectStatus("acme", 1, materials.Enqueued)
		if err := p.work("acme", 1); err != nil {
			t.Fatal(err)
		}
		expect(t, p.deliverOwn(p.round("acme", 1), event("acme", 1, noon.Add(-10*time.Minute), "second")), 200)
		if r := p.row("acme", 1); r.Status != "estimated" || !slices.Equal(r.estimateIDs(), []string{"second"}) {
			t.Errorf("the request is %s with %v", r.Status, r.estimateIDs())
		}
	})
}

func TestEvent_of_a_supplier_never_stops_a_later_round(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		expect(t, p.deliver("theirs_1", event("acme", 1, noon.Add(5*time.Minute), "theirs")), 200)
		tooFar := p.deliver("theirs_2", event("acme", 1, noon.Add(5*time.Minute+time.Second), "theirs"))
		expect(t, tooFar, http.StatusBadRequest)
		if got := pointers(t, tooFar); !slices.Equal(got, []string{"/timestamp"}) {
			t.Errorf("violations %v", got)
		}
		expect(t, p.reestimate("acme", 1), 202)
		expect(t, p.deliverOwn(p.round("acme", 1), event("acme", 1, noon, "ours")), 200)
		if r := p.row("acme", 1); r.Status != "estimated" || !slices.Equal(r.estimateIDs(), []string{"ours"}) {
			t.Errorf("the request is %s with %v", r.Status, r.estimateIDs())
		}
	})
}

func TestWorker_that_was_stopped_stores_nothing_of_what_retention_deleted_meanwhile(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		other := newPipeline(t, db, nil)
		p := newPipeline(t, db, nil)
		expect(t, p.post("acme", body(1, nil)), 201)
		again := []round.Round{p.round("acme", 1)}
		// another worker does it all meanwhile
		p.world.estimate = func(context.Context, estimates.Request) (estimates.Result, error) {
			if err := other.work("acme", 1); err != nil {
				return estimates.Result{}, err
			}
			expect(t, other.deliverOwn(other.round("acme", 1), event("acme", 1, noon, "other")), 200)
			for _, one := range []*pipeline{p, other} {
				one.now.Store(noon.Add(48 * time.Hour).UnixMicro())
			}
			_, err := other.operator.Prune(t.Context(), operator.Before(noon.Add(time.Hour)))
			return estimates.Result{}, err
		}
		for range 2 { // it comes once more
			_ = p.Work(slices.Clone(again))
		}
		var events int
		if err := db.Reader(t.Context()).Raw(`SELECT count(*) FROM webhook_events`).Scan(&events).Error; err != nil ||
			events > 0 {
			t.Errorf("%d events of a deleted request, %v", events, err)
		}
		if err := p.Work(again); err != nil {
			t.Errorf("the work does not end: %v", err)
		}
	})
}

func TestId_used_again_after_retention_has_nothing_in_common_with_its_former_life(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		expect(t, p.post("acme", body(1, nil)), 201)
		former := p.round("acme", 1)
		if err := p.work("acme", 1); err != nil {
			t.Fatal(err)
		}
		expect(t, p.deliverOwn(former, event("acme", 1, noon, "former")), 200)
		p.now.Store(noon.Add(48 * time.Hour).UnixMicro())
		old := operator.Before(noon.Add(time.Hour))
		if pruned, err := p.operator.Prune(t.Context(), old); err != nil ||
			pruned != (operator.Pruned{Requests: 1, Events: 1}) {
			t.Fatalf("pruned %+v, %v", pruned, err)
		}
		expect(t, p.post("acme", body(1, nil)), 201)
		expect(t, p.deliverOwn(former, event("acme", 1, noon, "former")), 200)
		p.expectStatus("acme", 1, materials.Enqueued)
		if err := p.MarkFailed(t.Context(), former, "its delivery died"); err != nil {
			t.Fatal(err)
		}
		p.expectStatus("acme", 1, materials.Enqueued)
		if err := p.work("acme", 1); err != nil || !slices.Equal(p.events(), []string{"acme/1/1"}) {
			t.Fatalf("events %v, %v", p.events(), err)
		}
		expect(t, p.deliverOwn(p.round("acme", 1), event("acme", 1, noon, "new")), 200)
		if got := p.row("acme", 1).estimateIDs(); !slices.Equal(got, []string{"new"}) {
			t.Errorf("estimates %v", got)
		}
	})
}
