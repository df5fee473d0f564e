package materials_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/pack"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

func TestWork_estimates_a_request_and_hands_its_event_to_the_outbox(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", -5)
		if err := p.work("acme", -5); err != nil {
			t.Fatal(err)
		}
		wanted := estimates.Request{SupplierID: "acme", RequestID: -5, UID: p.round("acme", -5).UID, Round: 1, At: noon,
			Items: []estimates.Item{
				{SKU: "SKU-1", Width: 100, Height: 50, Depth: 2.5, Quantity: 3,
					Product: &estimates.Product{Active: true, WeightKg: 4, ProductionDays: 2}},
				{SKU: "SKU-2", Width: 10, Height: 20, Quantity: 1},
			}}
		if diff := cmp.Diff(wanted, p.world.asked); diff != "" {
			t.Errorf("the estimator was asked (-want +got):\n%s", diff)
		}
		sent := event("acme", -5, noon, "e1")
		sent.Data.Unavailable = []webhook.Unavailable{}
		body, err := json.Marshal(sent)
		if err != nil {
			t.Fatal(err)
		}
		out := round.Outgoing{Round: p.round("acme", -5), TraceID: "trace-acme--5", Event: sent, Body: body}
		if diff := cmp.Diff(out, p.world.last); diff != "" {
			t.Errorf("the outbox got (-want +got):\n%s", diff)
		}
		p.expectStatus("acme", -5, materials.Enqueued)
	})
}

func TestWork_of_no_service_available_sends_empty_lists_and_never_null(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.world.estimate = func(context.Context, estimates.Request) (estimates.Result, error) {
			return estimates.Result{},
				nil
		}
		p.enqueue("acme", 1)
		if err := p.work("acme", 1); err != nil {
			t.Fatal(err)
		}
		if data := p.world.last.Event.Data; data.Estimates == nil || data.Unavailable == nil {
			t.Errorf("sent %s", marshal(data))
		}
	})
}

func TestWork_coming_again_is_done_once(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		other := newPipeline(t, db, nil) // a second worker process
		p.enqueue("acme", 1)
		failures := make([]error, 60)
		atOnce(len(failures), func(i int) {
			worker := []*pipeline{p, other}[i%2]
			failures[i] = worker.work("acme", 1)
		})
		if err := errors.Join(errors.Join(failures...), p.work("acme", 1)); err != nil {
			t.Error(err)
		}
		want := []string{"acme/1/1"}
		if diff := cmp.Diff(want, p.events()); diff != "" {
			t.Errorf("stored events (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(want, append(p.world.sentKeys(), other.world.sentKeys()...)); diff != "" {
			t.Errorf("sent events (-want +got):\n%s", diff)
		}
	})
}

func TestWork_of_many_requests_shares_transactions(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		const n = 300
		var want []string
		for id := range int64(n) {
			supplier := fmt.Sprintf("s%d", id%7)
			p.enqueue(supplier, id)
			want = append(want, fmt.Sprintf("%s/%d/1", supplier, id))
		}
		slices.Sort(want)
		var rounds []round.Round
		for id := range int64(n) {
			rounds = append(rounds, p.round(fmt.Sprintf("s%d", id%7), id))
		}
		var looks atomic.Int64
		p.world.products = func([]estimates.ProductKey) error { looks.Add(1); return nil }
		p.Take(rounds)
		p.run()
		wait.Until(t, "all are sent", func() bool { return len(p.world.sentKeys()) == n })
		if diff := cmp.Diff(want, p.world.sentKeys()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if adds := p.world.adds.Load(); adds > n/3 {
			t.Errorf("%d requests took %d transactions", n, adds)
		} else if looks.Load() > adds {
			t.Errorf("%d transactions looked for products %d times", adds, looks.Load())
		}
	})
}

func TestWork_with_nothing_to_do_does_nothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for id, status := range []materials.Status{materials.Estimated, materials.Selected, materials.Failed} {
			p.enqueue("acme", int64(id))
			p.exec("UPDATE material_requests SET status = ? WHERE id = ?", status, id)
		}
		for id := range int64(3) {
			if err := p.work("acme", id); err != nil {
				t.Errorf("request %d: %v", id, err)
			}
		}
		gone := []round.Round{{SupplierID: "acme", RequestID: 99, UID: 99, Number: 1},
			{SupplierID: "stranger", RequestID: 1, UID: 1, Number: 1}}
		if err := p.Work(gone); err != nil {
			t.Error(err)
		}
		if events := p.events(); len(events) > 0 {
			t.Errorf("stored events %v", events)
		}
	})
}

func TestWork_that_cannot_be_estimated_fails_alone(t *testing.T) {
	t.Parallel()
	broken := map[string]func() (estimates.Result, error){
		"an error": func() (estimates.Result, error) { return estimates.Result{}, errors.New("no tariff") },
		"a panic":  func() (estimates.Result, error) { panic("index out of range") },
		"a number that JSON cannot hold": func() (estimates.Result, error) {
			return estimates.Result{Estimates: []webhook.Estimate{{VolumeM3: math.Inf(1)}}}, nil
		},
		"a time that JSON cannot hold": func() (estimates.Result, error) {
			return estimates.Result{Estimates: []webhook.Estimate{{ValidUntil: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}},
				nil
		},
	}
	for name, spoil := range map[string]func(*webhook.Estimate){
		"a negative price":             func(e *webhook.Estimate) { e.PriceCents = -1 },
		"a weight that is no number":   func(e *webhook.Estimate) { e.ChargeableWeightKg = math.NaN() },
		"no id":                        func(e *webhook.Estimate) { e.EstimateID = "" },
		"a carrier with NUL":           func(e *webhook.Estimate) { e.Carrier = "a\x00b" },
		"a currency that is none":      func(e *webhook.Estimate) { e.Currency = "R$" },
		"a delivery before its start":  func(e *webhook.Estimate) { e.DeliveryDate = "2020-01-01" },
		"a dispatch on no day":         func(e *webhook.Estimate) { e.DispatchDate = "2026-02-30" },
		"a lead time of minus one day": func(e *webhook.Estimate) { e.LeadTimeDays = -1 },
	} {
		broken[name] = func() (estimates.Result, error) {
			offers := event("acme", 3, noon, "e1", "e2").Data.Estimates
			spoil(&offers[1])
			return estimates.Result{Estimates: offers}, nil
		}
	}
	broken["two estimates of one id"] = func() (estimates.Result, error) {
		return estimates.Result{Estimates: event("acme", 3, noon, "e1", "e1").Data.Estimates}, nil
	}
	broken["an unavailable service without a reason"] = func() (estimates.Result, error) {
		return estimates.Result{Unavailable: []webhook.Unavailable{{Service: "express"}}}, nil
	}
	for name, result := range broken {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				p := newPipeline(t, db, nil)
				p.world.estimate = func(_ context.Context, r estimates.Request) (estimates.Result, error) {
					if r.RequestID == 3 {
						return result()
					}
					return estimates.Result{}, nil
				}
				const n = 20
				for id := range int64(n) {
					p.enqueue("acme", id)
				}
				atOnce(n, func(i int) {
					if err := p.work("acme", int64(i)); err != nil {
						t.Errorf("request %d: %v", i, err)
					}
				})
				if events := p.events(); len(events) != n-1 || slices.Contains(events, "acme/3/1") {
					t.Errorf("stored events %v", events)
				}
				p.world.estimate = nil
				if err := p.work("acme", 3); err != nil {
					t.Errorf("the same work later: %v", err)
				}
				if !slices.Contains(p.events(), "acme/3/1") {
					t.Error("the work that came again stored no event")
				}
			})
		})
	}
}

func TestWork_that_keeps_failing_is_tried_again_on_a_schedule_and_then_fails_the_request(t *testing.T) {
	t.Parallel()
	const half = 500 * time.Millisecond
	for _, tt := range []struct {
		name    string
		result  func() (estimates.Result, error)
		waits   []time.Duration
		failure string
		lost    string // a table that is not there meanwhile
	}{
		{"that of the webhooks while something it needs is unavailable, whatever its error is",
			func() (estimates.Result, error) {
				return estimates.Result{}, errors.New("dial tcp 10.1.2.3:443: refused")
			},
			[]time.Duration{time.Minute, time.Hour},
			"The delivery estimates could not be computed: something they need was unavailable the whole time.", ""},
		{"that of the webhooks while the database lacks something", nil,
			[]time.Duration{time.Minute, time.Hour},
			"The delivery estimates could not be computed: something they need was unavailable the whole time.",
			"webhook_events"},
		{"and of ten tries when its result breaks the rules",
			func() (estimates.Result, error) {
				offers := event("acme", 1, noon, "e1").Data.Estimates
				offers[0].PriceCents = -1
				return estimates.Result{Estimates: offers}, nil
			},
			[]time.Duration{half, 2 * half, 4 * half, 8 * half, 16 * half, 32 * half, 30 * time.Second, 30 * time.Second,
				30 * time.Second},
			"The delivery estimates of this request could not be computed.", ""},
		{"and of ten tries when it fails by its own input", func() (estimates.Result, error) { panic("index out of range") },
			[]time.Duration{half, 2 * half, 4 * half, 8 * half, 16 * half, 32 * half, 30 * time.Second, 30 * time.Second,
				30 * time.Second},
			"The delivery estimates of this request could not be computed.", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				p := newPipeline(t, db, nil)
				if tt.result != nil {
					p.world.estimate = func(context.Context, estimates.Request) (estimates.Result, error) { return tt.result() }
				}
				p.enqueue("acme", 1)
				if tt.lost != "" {
					databasetest.Exec(t, db, `ALTER TABLE `+tt.lost+` RENAME TO elsewhere`)
				}
				now := noon
				for i, wait := range tt.waits {
					if err := p.work("acme", 1); err != nil {
						t.Fatal(err)
					}
					p.expectStatus("acme", 1, materials.Enqueued)
					for _, step := range []struct {
						at   time.Time
						want int
					}{{now.Add(wait - time.Microsecond), 0}, {now.Add(wait), 1}} {
						p.now.Store(step.at.UnixMicro())
						if n := p.due(); n != step.want {
							t.Fatalf("try %d, %s later: %d are due, want %d", i+1, step.at.Sub(now), n, step.want)
						}
					}
					now = now.Add(wait)
				}
				if err := p.work("acme", 1); err != nil {
					t.Fatal(err)
				}
				if tt.lost != "" {
					databasetest.Exec(t, db, `ALTER TABLE elsewhere RENAME TO `+tt.lost)
				}
				got := p.get("acme", "/1")
				if got["status"] != "failed" || got["failure"] != tt.failure {
					t.Errorf("in the end: %v, %v", got["status"], got["failure"])
				}
				if err := p.Reopen(t.Context(), "acme", 1); err != nil {
					t.Fatal(err)
				}
				p.world.estimate = nil
				if err := p.work("acme", 1); err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff([]string{"acme/1/2"}, p.events()); diff != "" {
					t.Errorf("after an operator reopened it, events (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestWork_of_several_requests_is_done_for_all_but_those_that_fail(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.world.estimate = func(_ context.Context, r estimates.Request) (estimates.Result, error) {
			if r.RequestID == 2 {
				return estimates.Result{}, errors.New("no tariff")
			}
			return estimates.Result{}, nil
		}
		var rounds []round.Round
		for id := range int64(3) {
			p.enqueue("acme", id+1)
			rounds = append(rounds, p.round("acme", id+1))
		}
		if err := p.Work(append(rounds, round.Round{SupplierID: "stranger", RequestID: 9, UID: 9, Number: 1})); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"acme/1/1", "acme/3/1"}, p.events()); diff != "" {
			t.Errorf("stored events (-want +got):\n%s", diff)
		}
		if at := p.row("acme", 2).DueAt; at == nil || *at != noon.Add(time.Minute).UnixMicro() {
			t.Errorf("the one that failed is due at %v", at)
		}
	})
}

func TestWork_of_suppliers_whose_catalogue_fails_is_tried_again_alone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		p.enqueue("other", 1)
		p.world.products = func(keys []estimates.ProductKey) error {
			if slices.ContainsFunc(keys, func(k estimates.ProductKey) bool { return k.SupplierID == "acme" }) {
				return errors.New("the catalogue is broken")
			}
			return nil
		}
		if err := p.Work([]round.Round{p.round("acme", 1), p.round("other", 1)}); err != nil {
			t.Error(err)
		}
		if r := p.row("acme", 1); r.Status != "enqueued" || r.DueAt == nil ||
			*r.DueAt != noon.Add(time.Minute).UnixMicro() {
			t.Errorf("the request is %s and tried again at %v", r.Status, r.DueAt)
		}
		if diff := cmp.Diff([]string{"other/1/1"}, p.events()); diff != "" {
			t.Errorf("stored events (-want +got):\n%s", diff)
		}
	})
}

func TestWork_of_several_requests_of_which_the_outbox_refuses_one_is_done_for_the_others(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.world.outbox = func(events []round.Outgoing) error {
			if slices.ContainsFunc(events, func(e round.Outgoing) bool { return e.Round.RequestID == 2 }) {
				return errors.New("refused")
			}
			return nil
		}
		var rounds []round.Round
		for id := range int64(3) {
			p.enqueue("acme", id+1)
			rounds = append(rounds, p.round("acme", id+1))
		}
		if err := p.Work(rounds); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"acme/1/1", "acme/3/1"}, p.events()); diff != "" {
			t.Errorf("stored events (-want +got):\n%s", diff)
		}
		if r := p.row("acme", 2); r.DueAt == nil || *r.DueAt <= noon.UnixMicro() {
			t.Error("the refused one is not tried again")
		}
		p.world.outbox = nil
		if err := p.work("acme", 2); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([]string{"acme/1/1", "acme/2/1", "acme/3/1"}, p.events()); diff != "" {
			t.Errorf("stored events after it came again (-want +got):\n%s", diff)
		}
	})
}

func TestWork_that_came_again_after_its_event_was_stored_is_due_no_longer(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		if err := errors.Join(p.work("acme", 1), p.work("acme", 1)); err != nil {
			t.Fatal(err)
		}
		if n := p.due(); n != 0 {
			t.Errorf("%d are due", n)
		}
		if diff := cmp.Diff([]string{"acme/1/1"}, p.events()); diff != "" {
			t.Errorf("stored events (-want +got):\n%s", diff)
		}
	})
}

func TestWork_of_an_earlier_round_does_nothing(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		earlier := p.round("acme", 1)
		expect(t, p.deliverOwn(earlier, event("acme", 1, noon, "e1")), 200)
		expect(t, p.reestimate("acme", 1), 202)
		if err := p.Work([]round.Round{earlier}); err != nil || len(p.events()) > 0 {
			t.Errorf("stored %v, %v", p.events(), err)
		}
	})
}

func TestWork_of_a_request_whose_estimates_arrive_from_elsewhere_meanwhile(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		p.world.estimate = func(context.Context, estimates.Request) (estimates.Result, error) {
			expect(t, p.deliver("msg_1", event("acme", 1, noon.Add(time.Second), "theirs")), 200)
			return estimates.Result{}, nil
		}
		if err := p.work("acme", 1); err != nil {
			t.Error(err)
		}
		expect(t, p.deliver("msg_2", event("acme", 1, noon, "theirs, older")), 200)
		if got := p.row("acme", 1).estimateIDs(); !cmp.Equal(got, []string{"theirs"}) {
			t.Errorf("the request has the estimates %v", got)
		}
		expect(t, p.deliverOwn(p.world.last.Round, p.world.last.Event), 200) // known by its round, not by its time
		if got := p.row("acme", 1).estimateIDs(); len(got) > 0 {
			t.Errorf("after its own event the request has the estimates %v", got)
		}
	})
}

func TestWork_of_large_requests_at_once_estimates_them_all(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		const n = 8
		comment := strings.Repeat("c", 900_000) // together several times what is worked on at a time
		for id := range int64(n) {
			p.enqueue("acme", id)
			p.exec(`UPDATE material_requests SET body = ? WHERE id = ?`, `{"id":1,"shop_code":"s","comment":"`+comment+
				`","materials":[]}`, id)
		}
		atOnce(n, func(i int) {
			if err := p.work("acme", int64(i)); err != nil {
				t.Errorf("request %d: %v", i, err)
			}
		})
		if got := len(p.events()); got != n {
			t.Errorf("%d events stored, want %d", got, n)
		}
	})
}

func TestWork_of_a_damaged_packed_body_puts_that_request_off_alone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for id := range int64(3) {
			p.enqueue("acme", id)
		}
		damaged := pack.Pack([]byte(`{"id":1,"shop_code":"s","comment":null,"materials":[]` + strings.Repeat(" ", 99) + `}`))
		damaged[len(damaged)-1] ^= 1
		p.exec(`UPDATE material_requests SET body = ? WHERE id = 1`, damaged)
		for id := range int64(3) {
			if err := p.work("acme", id); err != nil {
				t.Errorf("request %d: %v", id, err)
			}
		}
		if got := len(p.events()); got != 2 || *p.row("acme", 1).DueAt <= noon.UnixMicro() {
			t.Errorf("%d events are stored, and of the damaged request %+v", got, p.row("acme", 1))
		}
	})
}

// Of those that did not fit into memory together with the others nothing stays in hand.
func TestWork_of_a_batch_that_met_an_outage_is_all_done_afterwards(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		var rounds []round.Round
		for id := range int64(16) {
			p.enqueue("acme", id)
			if id < 2 { // each is larger than its share
				p.exec(`UPDATE material_requests SET body = ? WHERE id = ?`, `{"id":1,"shop_code":"s","comment":"`+
					strings.Repeat("c", 100_000)+`","materials":[]}`, id)
			}
			rounds = append(rounds, p.round("acme", id))
		}
		var asked atomic.Int64
		p.world.outbox = func([]round.Outgoing) error {
			if asked.Add(1) == 1 {
				return errs.NewUnavailable("The database is away.", time.Second, nil)
			}
			return nil
		}
		p.Own(allShards(), nil)
		p.Take(rounds)
		p.run()
		wait.Until(t, "all are sent", func() bool {
			p.now.Add(time.Second.Microseconds())
			return len(p.world.sentKeys()) == len(rounds)
		})
	})
}

func TestWork_of_a_round_that_the_outbox_always_refuses_fails_after_ten_tries(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.world.outbox = func([]round.Outgoing) error { return errors.New("refused") }
		p.enqueue("acme", 1)
		for range 10 {
			p.expectStatus("acme", 1, materials.Enqueued)
			if err := p.work("acme", 1); err != nil {
				t.Fatal(err)
			}
			p.now.Add(time.Minute.Microseconds())
		}
		p.expectStatus("acme", 1, materials.Failed)
	})
}
