package estimates

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func days(tb testing.TB) *calendar {
	tb.Helper()
	return newCalendar()
}

// card is the one that a fresh database has.
func card() []Service {
	return []Service{
		{Name: "road", Carrier: "Rodovia Cargas", BaseCents: 2500, PerKgCents: 180, MinimumCents: 3500, CubageKgM3: 300,
			MaxSideCm: 250, MaxWeightKg: 500, TransitDays: 5},
		{Name: "express", Carrier: "Expresso Aereo", BaseCents: 4000, PerKgCents: 650, MinimumCents: 6000, CubageKgM3: 167,
			MaxSideCm: 120, MaxWeightKg: 30, TransitDays: 2},
		{Name: "bulky", Carrier: "Carga Especial", BaseCents: 15000, PerKgCents: 95, MinimumCents: 25000, CubageKgM3: 200,
			MaxSideCm: 1200, MaxWeightKg: 10000, TransitDays: 9},
	}
}

func saoPaulo(text string) time.Time {
	zone, err := time.LoadLocation(zoneName)
	if err != nil {
		panic(err)
	}
	at, err := time.ParseInLocation("2006-01-02 15:04:05", text, zone)
	if err != nil {
		panic(err)
	}
	return at
}

func shelf(quantity int64, p *Product) Request {
	return Request{SupplierID: "acme", RequestID: 4711, Round: 1, At: saoPaulo("2026-11-21 02:09:54"),
		Items: []Item{{SKU: "SHELF-90", Width: 90, Height: 30, Depth: 25, Quantity: quantity, Product: p}}}
}

// The numbers are those of the table at /docs/estimates.
func TestEstimate_of_the_documentation_by_hand(t *testing.T) {
	t.Parallel()
	got := compute(shelf(4, nil), card(), days(t))
	if len(got.Estimates) != 2 || len(got.Unavailable) != 1 {
		t.Fatalf("got %+v", got)
	}
	road, bulky := got.Estimates[0], got.Estimates[1]
	if road.Service != "road" || road.VolumeM3 != 0.27 || road.ChargeableWeightKg != 81 || road.PriceCents != 17080 ||
		road.LeadTimeDays != 6 || road.DispatchDate != "2026-11-23" || road.DeliveryDate != "2026-11-30" {
		t.Errorf("road is %+v", road)
	}
	if bulky.ChargeableWeightKg != 54 || bulky.PriceCents != 25000 || bulky.LeadTimeDays != 10 ||
		bulky.DeliveryDate != "2026-12-04" || !bulky.ValidUntil.Equal(saoPaulo("2026-11-28 23:59:59")) {
		t.Errorf("bulky is %+v", bulky)
	}
	if u := got.Unavailable[0]; u.Service != "express" ||
		u.Reason != "The chargeable weight is 45.1 kg, the service takes up to 30 kg." {
		t.Errorf("express is %+v", u)
	}
}

func TestEstimate_rules(t *testing.T) {
	t.Parallel()
	c := days(t)
	road := func(r Request) (cents int64, kg float64, dispatch, reason string) {
		got := compute(r, card()[:1], c)
		if len(got.Unavailable) == 1 {
			return 0, 0, "", got.Unavailable[0].Reason
		}
		e := got.Estimates[0]
		return e.PriceCents, e.ChargeableWeightKg, e.DispatchDate, ""
	}
	one := func(width, height, depth float64, quantity int64, p *Product) Request {
		r := shelf(quantity, p)
		r.Items[0].Width, r.Items[0].Height, r.Items[0].Depth = width, height, depth
		return r
	}
	for name, test := range map[string]struct {
		request  Request
		cents    int64
		kg       float64
		dispatch string
		reason   string
	}{
		"the real weight when it is larger": {one(10, 10, 10, 2, &Product{Active: true, WeightKg: 10}), 6100, 20,
			"2026-11-23", ""},
		"the volumetric weight when it is larger": {one(100, 100, 10, 1, &Product{Active: true, WeightKg: 10}), 7900,
			30, "2026-11-23", ""},
		"a tenth of a kilogram is rounded up": {one(0, 0, 0, 1, &Product{Active: true, WeightKg: 10.01}), 4318,
			10.1, "2026-11-23", ""},
		"floating-point noise is not rounded up": {one(0, 0, 0, 3, &Product{Active: true, WeightKg: 10.1}), 7954, 30.3,
			"2026-11-23", ""},
		"nothing weighs nothing and costs the minimum": {one(0, 0, 0, 1, nil), 3500, 0, "2026-11-23", ""},
		"the slowest product's production comes first": {one(0, 0, 0, 1, &Product{Active: true, ProductionDays: 3}), 3500, 0,
			"2026-11-26", ""},
		"a side over the limit": {one(250.5, 1, 1, 1, nil), 0, 0, "",
			"The largest side is 250.5 cm, the service takes up to 250 cm."},
		"a weight over the limit": {one(0, 0, 0, 51, &Product{Active: true, WeightKg: 10}), 0, 0, "",
			"The chargeable weight is 510 kg, the service takes up to 500 kg."},
		"a product that is not sold any more": {one(0, 0, 0, 1, &Product{}), 0, 0, "",
			"The product SHELF-90 is not active."},
		"a weight without bounds": {one(0, 0, 0, 1<<31-1, &Product{Active: true, WeightKg: 1e308}), 0,
			0, "", "The weight is out of range."},
		"a production of years": {one(0, 0, 0, 1, &Product{Active: true, ProductionDays: 4000}), 0, 0,
			"", "The production takes too long."},
	} {
		cents, kg, dispatch, reason := road(test.request)
		if cents != test.cents || kg != test.kg || dispatch != test.dispatch || reason != test.reason {
			t.Errorf("%s: %d cents, %v kg, %s, %q", name, cents, kg, dispatch, reason)
		}
	}
}

func TestEstimate_ids_belong_to_one_round_of_one_request_and_service(t *testing.T) {
	t.Parallel()
	r := shelf(1, nil)
	seen := map[string]string{}
	for name, change := range map[string]func(*Request, *Service){
		"itself": func(*Request, *Service) {}, "round": func(r *Request, _ *Service) { r.Round = 2 },
		"life": func(r *Request, _ *Service) { r.UID++ }, "request": func(r *Request, _ *Service) { r.RequestID++ },
		"supplier": func(r *Request, _ *Service) { r.SupplierID = "acme/4711" },
		"service":  func(_ *Request, s *Service) { s.Name = "other" },
	} {
		request, service := r, card()[0]
		change(&request, &service)
		id := estimateID(request, service)
		if other, twice := seen[id]; twice || !strings.HasPrefix(id, "est_") || id != estimateID(request, service) {
			t.Errorf("%s has the id of %s", name, other)
		}
		seen[id] = name
	}
}

func TestBusinessDays_of_Brazil(t *testing.T) {
	t.Parallel()
	c := days(t)
	for day, name := range map[string]string{
		"2026-01-01": "new year", "2026-04-03": "good friday", "2026-04-21": "Tiradentes", "2026-05-01": "labour day",
		"2026-06-04": "corpus christi",
		"2026-09-07": "independence", "2026-10-12": "Aparecida", "2026-11-02": "all souls",
		"2026-11-15": "republic (a Sunday)", "2026-11-20": "Consciência Negra", "2026-12-25": "christmas",
		"2027-03-26": "good friday", "2028-04-14": "good friday", "2026-11-21": "a Saturday", "2026-11-22": "a Sunday",
		"2027-11-20": "Consciência Negra",
	} {
		at, _ := time.Parse(time.DateOnly, day)
		for range 2 { // worked out, and from memory
			if c.isBusinessDay(at) {
				t.Errorf("%s, %s, is a business day", day, name)
			}
		}
	}
	for _, day := range []string{"2026-11-23", "2026-11-19", "2026-12-24", "2026-04-02"} {
		at, _ := time.Parse(time.DateOnly, day)
		if !c.isBusinessDay(at) {
			t.Errorf("%s is no business day", day)
		}
	}
}

func TestWork_begins_on_the_next_business_day_from_14_oclock_in_Sao_Paulo(t *testing.T) {
	t.Parallel()
	c := days(t)
	for at, want := range map[string]string{
		"2026-11-18 13:59:59": "2026-11-18", "2026-11-18 14:00:00": "2026-11-19", "2026-11-19 14:00:00": "2026-11-23",
		"2026-11-20 09:00:00": "2026-11-23",
		"2026-11-21 23:59:59": "2026-11-23", "2026-11-23 00:00:00": "2026-11-23", "2026-12-24 15:00:00": "2026-12-28",
		"2026-12-31 14:00:00": "2027-01-04",
	} {
		if got := c.start(saoPaulo(at)).Format(time.DateOnly); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
	// 23:00 of the 18th there: after 14
	if got := c.start(time.Date(2026, 11, 19, 2, 0, 0, 0, time.UTC)).Format(time.DateOnly); got != "2026-11-19" {
		t.Errorf("the day of UTC counts: %s", got)
	}
}

// TestEstimates_properties: deterministic, never negative, never early, never on a day off, monotone.
func TestEstimates_properties(t *testing.T) {
	t.Parallel()
	c := days(t)
	rapid.Check(t, func(rt *rapid.T) {
		p := &Product{Active: true, WeightKg: rapid.Float64Range(0, 200).Draw(rt, "weight"),
			ProductionDays: rapid.IntRange(0, 60).Draw(rt, "production")}
		r := shelf(rapid.Int64Range(1, 50).Draw(rt, "quantity"), p)
		r.Items[0].Width = rapid.Float64Range(0, 300).Draw(rt, "width")
		r.At = time.Unix(rapid.Int64Range(1_700_000_000, 1_900_000_000).Draw(rt, "at"), 0)
		got := compute(r, card(), c)
		if fmt.Sprint(got) != fmt.Sprint(compute(r, card(), c)) {
			rt.Fatal("the same request gives two results")
		}
		heavier, larger, slower := r, r, r
		heavier.Items = []Item{r.Items[0]}
		heavier.Items[0].Product = &Product{Active: true, WeightKg: p.WeightKg + 1, ProductionDays: p.ProductionDays}
		larger.Items = []Item{r.Items[0]}
		larger.Items[0].Quantity++
		slower.Items = []Item{r.Items[0]}
		slower.Items[0].Product = &Product{Active: true, WeightKg: p.WeightKg, ProductionDays: p.ProductionDays + 1}
		of := func(r Request, service string) (int64, string, bool) {
			for _, e := range compute(r, card(), c).Estimates {
				if e.Service == service {
					return e.PriceCents, e.DeliveryDate, true
				}
			}
			return 0, "", false
		}
		for _, e := range got.Estimates {
			dispatch, _ := time.Parse(time.DateOnly, e.DispatchDate)
			delivery, _ := time.Parse(time.DateOnly, e.DeliveryDate)
			today := c.day(r.At)
			if e.PriceCents < 0 || delivery.Before(dispatch) || dispatch.Before(today) || !c.isBusinessDay(dispatch) ||
				!c.isBusinessDay(delivery) || !e.ValidUntil.After(r.At) {
				rt.Fatalf("%+v at %s", e, r.At)
			}
			for name, more := range map[string]Request{"weight": heavier, "quantity": larger} {
				if price, _, ok := of(more, e.Service); ok && price < e.PriceCents {
					rt.Fatalf("more %s costs less: %d after %d", name, price, e.PriceCents)
				}
			}
			if _, later, ok := of(slower, e.Service); ok && later <= e.DeliveryDate {
				rt.Fatalf("a day of production more is delivered at %s, without at %s", later, e.DeliveryDate)
			}
		}
		if len(got.Estimates)+len(got.Unavailable) != len(card()) {
			rt.Fatalf("a service is neither offered nor refused: %+v", got)
		}
	})
}

func BenchmarkCompute(b *testing.B) {
	c := days(b)
	r := shelf(4, &Product{Active: true, WeightKg: 3, ProductionDays: 4})
	for b.Loop() {
		compute(r, card(), c)
	}
}
