package estimates_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/estimates"
)

func price(t *testing.T, c *estimates.RateCard, at time.Time, service string) int64 {
	t.Helper()
	got, err := c.Estimate(t.Context(), estimates.Request{At: at, Items: []estimates.Item{{SKU: "A", Quantity: 1}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range got.Estimates {
		if e.Service == service {
			return e.PriceCents
		}
	}
	return -1
}

func TestRateCard_a_change_counts_from_its_day_and_elsewhere_within_a_second(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
		clock := func() time.Time { return now }
		here, elsewhere := estimates.New(db, clock, clock), estimates.New(db, clock, clock)
		if got := price(t, elsewhere, now, "road"); got != 3500 {
			t.Fatalf("the first card's minimum is %d", got)
		}
		dearer := func(road *estimates.Service) { road.MinimumCents = 9900 }
		if road, err := here.Change(t.Context(), "road", "2026-11-25", dearer); err != nil || road.BaseCents == 0 {
			t.Fatalf("%+v, %v", road, err)
		}
		now = now.Add(time.Second)
		if got := price(t, elsewhere, now, "road"); got != 3500 {
			t.Errorf("tomorrow's change counts today: %d", got)
		}
		if got := price(t, elsewhere, now.AddDate(0, 0, 2), "road"); got != 9900 {
			t.Errorf("on its day it is %d", got)
		}
		if got := price(t, elsewhere, time.Date(2026, 11, 25, 2, 59, 0, 0, time.UTC), "road"); got != 3500 {
			t.Errorf("a minute before its São Paulo day it is %d", got)
		}
		if list, err := here.List(t.Context()); err != nil || len(list) != 4 {
			t.Errorf("the card has %d versions: %v", len(list), err)
		}
	})
}

func TestRateCard_keeps_at_least_one_service(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		c := estimates.New(db, time.Now, time.Now)
		if err := c.Remove(t.Context(), "nothing"); errs.KindOf(err) != errs.NotFound {
			t.Errorf("an unknown service: %v", err)
		}
		if err := c.Remove(t.Context(), "road"); err != nil {
			t.Fatal(err)
		}
		failures := make([]error, 2)
		var group sync.WaitGroup
		for i, name := range []string{"express", "bulky"} { // both at once: one must stay
			group.Go(func() { failures[i] = c.Remove(context.WithoutCancel(t.Context()), name) })
		}
		group.Wait()
		if (failures[0] == nil) == (failures[1] == nil) || errs.KindOf(errors.Join(failures...)) != errs.Conflict {
			t.Errorf("got %v", failures)
		}
		if list, _ := c.List(t.Context()); len(list) != 1 {
			t.Errorf("%d services are left", len(list))
		}
	})
}

func TestRateCard_makes_both_of_two_changes_at_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		c := estimates.New(db, time.Now, time.Now)
		for n := range int64(20) {
			var group sync.WaitGroup
			for _, change := range []func(*estimates.Service){
				func(s *estimates.Service) { s.BaseCents = 1000 + n }, func(s *estimates.Service) { s.PerKgCents = 2000 + n },
			} {
				group.Go(func() {
					if _, err := c.Change(t.Context(), "road", "2026-11-25", change); err != nil {
						t.Error(err)
					}
				})
			}
			group.Wait()
			road, err := c.Change(t.Context(), "road", "2026-11-25", func(*estimates.Service) {})
			if err != nil || road.BaseCents != 1000+n || road.PerKgCents != 2000+n {
				t.Fatalf("round %d: %+v, %v", n, road, err)
			}
		}
	})
}

func TestRateCard_names_every_violation(t *testing.T) {
	t.Parallel()
	c := estimates.New(databasetest.Open(t, database.SQLite), time.Now, time.Now)
	err := c.Set(t.Context(), estimates.Service{Name: "Road!", BaseCents: -1, PerKgCents: -1, MinimumCents: -1,
		CubageKgM3: -1, TransitDays: 400, EffectiveFrom: "2026-02-30"})
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || len(e.Violations) != 10 {
		t.Fatalf("got %v", err)
	}
}
