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

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/estimates"
	"github.com/supplyhub/supplyhub/internal/materials"
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
		wanted := estimates.Request{SupplierID: "acme", RequestID: -5, Round: 1, At: noon, Items: []estimates.Item{
			{SKU: "SKU-1", Width: 100, Height: 50, Depth: 2.5, Quantity: 3, Product: &estimates.Product{Active: true, WeightKg: 4, ProductionDays: 2}},
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
		out := materials.Outgoing{Key: "acme/-5/1", TraceID: "trace-acme--5", Event: sent, Body: body}
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
		p.world.estimate = func(context.Context, estimates.Request) (estimates.Result, error) { return estimates.Result{}, nil }
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
		failures := make([]error, n)
		atOnce(n, func(i int) { failures[i] = p.work(fmt.Sprintf("s%d", i%7), int64(i)) })
		if err := errors.Join(failures...); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(want, p.world.sentKeys()); diff != "" {
			t.Errorf("sent (-want +got):\n%s", diff)
		}
		if adds := p.world.adds.Load(); adds > n/3 {
			t.Errorf("%d requests took %d transactions", n, adds)
		}
	})
}

func TestWork_with_nothing_to_do_is_acknowledged(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		for id, status := range []materials.Status{materials.Estimated, materials.Selected, materials.Failed} {
			p.enqueue("acme", int64(id))
			p.exec("UPDATE material_requests SET status = ? WHERE id = ?", status, id)
		}
		for _, subject := range []string{
			"mr.acme.0", "mr.acme.1", "mr.acme.2", "mr.acme.99", "mr.stranger.0",
			"", "mr", "mr.", "mr.acme", "mr.acme.", "mr..1", "mr.acme.01", "mr.acme.+1", "mr.acme.1.2", "mr.acme.x", "mr.a\x00b.1",
			"mr.acme.9223372036854775808", "xx.acme.1", "mr.ac\xffme.1", "mr.acme.1 ",
		} {
			if err := p.Work(t.Context(), materials.Work{Subject: subject, Deliveries: 50}); err != nil {
				t.Errorf("work %q: %v", subject, err)
			}
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
			return estimates.Result{Estimates: []webhook.Estimate{{ValidUntil: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}}}, nil
		},
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
					if err := p.work("acme", int64(i)); (err != nil) != (i == 3) {
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

func TestWork_that_keeps_failing(t *testing.T) {
	t.Parallel()
	away := errs.Away("the carrier is away", time.Second, nil)
	for _, tt := range []struct {
		name       string
		cause      error
		deliveries int
		want       materials.Status
		redeliver  bool
	}{
		{"is tried nine times", errors.New("no tariff\x00 for \xff it"), 9, materials.Enqueued, true},
		{"fails the request at the tenth", errors.New("no tariff\x00 for \xff it"), 10, materials.Failed, false},
		{"is never given up while a dependency is away", away, 1000, materials.Enqueued, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				p := newPipeline(t, db, nil)
				p.world.estimate = func(context.Context, estimates.Request) (estimates.Result, error) {
					return estimates.Result{}, tt.cause
				}
				p.enqueue("acme", 1)
				err := p.Work(t.Context(), materials.Work{Subject: "mr.acme.1", Deliveries: tt.deliveries})
				if (err != nil) != tt.redeliver {
					t.Errorf("work: %v", err)
				}
				p.expectStatus("acme", 1, tt.want)
				if tt.want != materials.Failed {
					return
				}
				if got := p.row("acme", 1).Failure; got != "no tariff for  it" {
					t.Errorf("the reason is %q", got)
				}
				line := p.logs.only(t)
				if line["request_id"] != "trace-acme-1" || line["supplier_id"] != "acme" || line["material_request_id"] != "1" {
					t.Errorf("the log line lacks whose work it was: %v", line)
				}
			})
		})
	}
}

func TestWork_of_several_requests_is_done_for_all_but_those_that_fail(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		var asked atomic.Int64
		p.world.estimate = func(_ context.Context, r estimates.Request) (estimates.Result, error) {
			asked.Add(1)
			if r.RequestID == 2 {
				return estimates.Result{}, errors.New("no tariff")
			}
			return estimates.Result{}, nil
		}
		message := materials.Work{Subject: "mr.acme.1.4", Body: []byte("mr.acme.1\nmr.acme.2\nmr.acme.3\nmr.stranger.9\n"), Deliveries: 9}
		for id := range int64(3) {
			p.enqueue("acme", id+1)
		}
		if err := p.Work(t.Context(), message); err == nil || !strings.Contains(err.Error(), "material request 2") {
			t.Errorf("the ninth time: %v", err)
		}
		if diff := cmp.Diff([]string{"acme/1/1", "acme/3/1"}, p.events()); diff != "" {
			t.Errorf("stored events (-want +got):\n%s", diff)
		}
		for _, id := range []int64{1, 3} {
			expect(t, p.deliver(fmt.Sprintf("msg_%d", id), event("acme", id, noon, "e1")), 200)
		}
		asked.Store(0)
		message.Deliveries = 10
		if err := p.Work(t.Context(), message); err != nil {
			t.Errorf("the tenth time: %v", err)
		}
		if asked.Load() != 1 {
			t.Errorf("estimated %d requests again, want one", asked.Load())
		}
		p.expectStatus("acme", 1, materials.Estimated)
		p.expectStatus("acme", 2, materials.Failed)
		p.expectStatus("acme", 3, materials.Estimated)
	})
}

func TestWork_of_several_requests_with_a_malformed_name_is_dropped_whole(t *testing.T) {
	t.Parallel()
	p := newPipeline(t, databasetest.Open(t, database.SQLite), nil)
	p.enqueue("acme", 1)
	for _, body := range []string{"mr.acme.1\n\n", "mr.acme.1\nmr.acme", "mr.acme.1\r\nmr.acme.2\n", "\n", "mr.acme.1 mr.acme.2"} {
		if err := p.Work(t.Context(), materials.Work{Subject: "mr.acme.1.2", Body: []byte(body), Deliveries: 1}); err != nil {
			t.Errorf("%q: %v", body, err)
		}
	}
	if events := p.events(); len(events) > 0 {
		t.Errorf("stored events %v", events)
	}
}

func TestWork_that_loses_a_dependency_is_never_given_up(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.enqueue("acme", 1)
		p.enqueue("other", 1)
		p.world.products = func(supplierID string, _ []string) (map[string]estimates.Product, error) {
			if supplierID == "acme" {
				return nil, errors.New("the catalogue is broken")
			}
			return nil, nil
		}
		atOnce(2, func(i int) {
			supplierID := []string{"acme", "other"}[i]
			err := p.Work(t.Context(), materials.Work{Subject: materials.Subject(supplierID, 1), Deliveries: 100})
			if (err != nil) != (supplierID == "acme") {
				t.Errorf("%s: %v", supplierID, err)
			}
		})
		p.expectStatus("acme", 1, materials.Enqueued)
		if diff := cmp.Diff([]string{"other/1/1"}, p.events()); diff != "" {
			t.Errorf("stored events (-want +got):\n%s", diff)
		}
	})
}

func TestWork_of_several_requests_of_which_the_outbox_refuses_one_is_done_for_the_others(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.world.outbox = func(events []materials.Outgoing) error {
			if slices.ContainsFunc(events, func(e materials.Outgoing) bool { return e.Key == "acme/2/1" }) {
				return errors.New("refused")
			}
			return nil
		}
		for id := range int64(3) {
			p.enqueue("acme", id+1)
		}
		err := p.Work(t.Context(), materials.Work{Subject: "mr.acme.1.3", Body: []byte("mr.acme.1\nmr.acme.2\nmr.acme.3\n"), Deliveries: 1})
		if err == nil || !strings.Contains(err.Error(), "material request 2") {
			t.Errorf("work: %v", err)
		}
		if diff := cmp.Diff([]string{"acme/1/1", "acme/3/1"}, p.events()); diff != "" {
			t.Errorf("stored events (-want +got):\n%s", diff)
		}
	})
}

func TestWork_whose_event_the_outbox_refuses_fails_alone_and_can_come_again(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, nil)
		p.world.outbox = func(events []materials.Outgoing) error {
			if slices.ContainsFunc(events, func(e materials.Outgoing) bool { return e.Key == "acme/3/1" }) {
				return errors.New("crash before the commit")
			}
			return nil
		}
		const n = 20
		for id := range int64(n) {
			p.enqueue("acme", id)
		}
		atOnce(n, func(i int) {
			err := p.Work(t.Context(), materials.Work{Subject: materials.Subject("acme", int64(i)), Deliveries: 99})
			if (err != nil) != (i == 3) {
				t.Errorf("request %d: %v", i, err)
			}
		})
		p.expectStatus("acme", 3, materials.Enqueued)
		p.world.outbox = nil
		if err := p.work("acme", 3); err != nil {
			t.Error(err)
		}
		if got := p.events(); len(got) != n || !cmp.Equal(got, p.world.sentKeys()) {
			t.Errorf("stored %v, sent %v", got, p.world.sentKeys())
		}
	})
}

// crashing loses what it should send, as a worker does that dies right after the commit.
type crashing struct{ *world }

func (c crashing) Add(ctx context.Context, events []materials.Outgoing) (func(), error) {
	_, err := c.world.Add(ctx, events)
	return func() {}, err
}

func TestWork_after_a_crash_between_commit_and_send_stores_no_second_event(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		p := newPipeline(t, db, func(d *materials.Deps) { d.Outbox = crashing{d.Outbox.(*world)} })
		p.enqueue("acme", 1)
		if err := errors.Join(p.work("acme", 1), p.work("acme", 1)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"acme/1/1"}, p.events()); diff != "" {
			t.Errorf("stored events (-want +got):\n%s", diff)
		}
	})
}

func TestWork_does_not_undo_newer_estimates_that_arrive_from_elsewhere_meanwhile(t *testing.T) {
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
		expect(t, p.deliver("msg_2", p.world.last.Event), 200)
		if got := p.row("acme", 1).estimateIDs(); !cmp.Equal(got, []string{"theirs"}) {
			t.Errorf("the request has the estimates %v", got)
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
			p.exec(`UPDATE material_requests SET body = ? WHERE id = ?`, `{"id":1,"shop_code":"s","comment":"`+comment+`","materials":[]}`, id)
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
