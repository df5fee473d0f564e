package notify_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/notice"
	"github.com/supplyhub/supplyhub/internal/notify"
)

// sent is what the operator's receiver was sent.
type sent struct {
	ID, Type string
	Data     struct {
		SupplierID   string  `json:"supplier_id"`
		SupplierName string  `json:"supplier_name"`
		Count        int64   `json:"count"`
		IDs          []any   `json:"ids"`
		LastError    *string `json:"last_error"`
		PausedBy     string  `json:"paused_by"`
	}
}

// rig is some processes on one database whose clock the test sets, and a receiver that answers as it says.
type rig struct {
	t      *testing.T
	db     *database.DB
	clock  atomic.Int64
	mu     sync.Mutex
	sent   []sent
	answer func(id string, attempt int64) notify.Verdict
}

func newRig(t *testing.T, db *database.DB) *rig {
	r := &rig{t: t, db: db, answer: func(string, int64) notify.Verdict { return notify.Verdict{Delivered: true} }}
	r.clock.Store(time.Date(2026, 11, 22, 3, 0, 30, 0, time.UTC).UnixMicro())
	return r
}

func (r *rig) now() time.Time { return time.UnixMicro(r.clock.Load()) }

func (r *rig) pass(d time.Duration) { r.clock.Add(d.Microseconds()) }

func (r *rig) notifier() *notify.Notifier {
	return notify.New(notify.Deps{
		DB: r.db, Log: slog.New(slog.DiscardHandler), Now: r.now, Timeout: time.Second,
		Names: func(_ context.Context, ids []string) (map[string]string, error) {
			names := map[string]string{}
			for _, id := range ids {
				names[id] = "Name of " + id
			}
			return names, nil
		},
		Send: func(_ context.Context, id string, body []byte, attempt int64) notify.Verdict {
			event := sent{ID: id}
			if err := json.Unmarshal(body, &event); err != nil {
				r.t.Error(err)
			}
			r.mu.Lock()
			defer r.mu.Unlock()
			r.sent = append(r.sent, event)
			return r.answer(id, attempt)
		},
	})
}

// run starts processes that end with stop or the test.
func (r *rig) run(n int) (stop func()) {
	ctx, cancel := context.WithCancel(r.t.Context())
	var running sync.WaitGroup
	for range n {
		running.Go(func() {
			if err := r.notifier().Run(ctx); err != nil {
				r.t.Error(err)
			}
		})
	}
	stop = func() { cancel(); running.Wait() }
	r.t.Cleanup(stop)
	return stop
}

// arrived are the events so far, by type, supplier and count.
func (r *rig) arrived() []sent {
	r.mu.Lock()
	defer r.mu.Unlock()
	events := slices.Clone(r.sent)
	slices.SortFunc(events, func(a, b sent) int {
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(a.Data.SupplierID, b.Data.SupplierID),
			cmp.Compare(b.Data.Count, a.Data.Count))
	})
	return events
}

func (r *rig) until(what string, condition func() bool) {
	r.t.Helper()
	if !wait.Within(wait.Limit, condition) {
		r.t.Fatalf("%s: it did not happen; sent %+v", what, r.arrived())
	}
}

func (r *rig) note(notices ...notice.Notice) {
	r.t.Helper()
	if err := r.notifier().Note(r.t.Context(), notices...); err != nil {
		r.t.Fatal(err)
	}
}

// gathered waits until no notice is left outside an event.
func (r *rig) gathered() {
	r.t.Helper()
	r.until("every notice is in an event", func() bool {
		var n int64
		if err := r.db.From(r.t.Context()).Raw(`SELECT count(*) FROM operator_notices`).Scan(&n).Error; err != nil {
			r.t.Fatal(err)
		}
		return n == 0
	})
}

func TestNotifier_sums_up_a_minute_from_the_first_and_sends_each_event_once_over_all_processes(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db)
		r.run(3)
		for i := range 25 {
			r.note(notice.Notice{Type: notice.DeliveryDead, SupplierID: "a", Subject: fmt.Sprint("msg_", i),
				Error: fmt.Sprint("status ", i)})
			r.pass(2 * time.Second)
		}
		r.note(notice.Notice{Type: notice.RequestFailed, SupplierID: "a", Subject: "7"},
			notice.Notice{Type: notice.DeliveryDead, SupplierID: "b", Subject: "msg_b"})
		r.gathered()
		if got := r.arrived(); len(got) != 0 {
			t.Fatalf("sent before its minute was over: %+v", got)
		}
		r.pass(9 * time.Second) // 59 s after the first
		r.note(notice.Notice{Type: notice.DeliveryDead, SupplierID: "a", Subject: "msg_late"})
		r.gathered()
		r.pass(10 * time.Second)
		r.until("the first minute's event", func() bool { return len(r.arrived()) == 1 })
		r.note(notice.Notice{Type: notice.DeliveryDead, SupplierID: "a", Subject: "msg_next"})
		r.gathered()
		r.pass(2 * time.Minute)
		r.until("all events", func() bool { return len(r.arrived()) == 4 })

		got := r.arrived()
		var summary []string
		for _, e := range got {
			summary = append(summary, fmt.Sprint(e.Type, " ", e.Data.SupplierID, " ", e.Data.SupplierName, " ", e.Data.Count,
				" ", len(e.Data.IDs), " ", e.Data.IDs[0]))
		}
		want := []string{
			"delivery.dead a Name of a 26 20 msg_0", "delivery.dead a Name of a 1 1 msg_next",
			"delivery.dead b Name of b 1 1 msg_b", "request.failed a Name of a 1 1 7",
		}
		if diff := gocmp.Diff(want, summary); diff != "" {
			t.Error(diff)
		}
		if e := got[0].Data.LastError; e == nil || *e != "status 24" {
			t.Errorf("the last error is %v", e)
		}
		if e := got[3].Data; e.LastError != nil || e.IDs[0] != 7.0 {
			t.Errorf("a failed request is %+v", e)
		}
	})
}

func TestNotifier_sums_up_in_the_newer_event_while_the_one_before_waits_for_its_last_second(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		// PostgreSQL then reads the table as it lies, and the older one last
		databasetest.Exec(t, db, `DROP INDEX operator_events_due`)
		r := newRig(t, db)
		r.run(1)
		for i := range 3 {
			r.note(notice.Notice{Type: notice.DeliveryDead, SupplierID: "a", Subject: fmt.Sprint("msg_", i)})
			r.gathered()
			if i == 0 {
				r.pass(60*time.Second + 500*time.Millisecond)
			}
			databasetest.Exec(t, db, `UPDATE operator_events SET count = count WHERE at = (SELECT min(at) FROM operator_events)`)
		}
		r.pass(2 * time.Minute)
		r.until("two events", func() bool { got := r.arrived(); return len(got) == 2 && got[0].Data.Count == 2 })
	})
}

func TestNotifier_sends_a_receivers_events_at_once_each_by_itself(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db)
		r.run(2)
		r.note(notice.Notice{Type: notice.ReceiverFailing, SupplierID: "a", Error: "status 503"},
			notice.Notice{Type: notice.ReceiverPaused, SupplierID: "a", PausedBy: "operator"},
			notice.Notice{Type: notice.ReceiverFailing, SupplierID: "a", Error: "status 500"})
		r.until("three events", func() bool { return len(r.arrived()) == 3 })
		if e := r.arrived()[2]; e.Type != notice.ReceiverPaused || e.Data.PausedBy != "operator" || e.Data.Count != 1 ||
			e.Data.IDs == nil || len(e.Data.IDs) != 0 || e.Data.LastError != nil {
			t.Errorf("%+v", e)
		}
	})
}

func TestNotifier_sends_again_under_the_same_id_until_it_is_taken_or_the_schedule_is_used_up(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db)
		r.answer = func(_ string, attempt int64) notify.Verdict {
			if attempt < 3 {
				return notify.Verdict{Again: r.now().Add(time.Hour), Reason: "status 503"}
			}
			return notify.Verdict{Reason: "status 410"} // given up
		}
		r.note(notice.Notice{Type: notice.ReceiverFailing, SupplierID: "a"})
		r.run(2)
		for n := 1; n <= 3; n++ {
			r.until(fmt.Sprint("attempt ", n), func() bool { return len(r.arrived()) == n })
			r.until("it is put off, or forgotten", func() bool {
				var due []int64
				if err := db.From(t.Context()).Raw(`SELECT due_at FROM operator_events`).Scan(&due).Error; err != nil {
					t.Fatal(err)
				}
				return len(due) == 1 && due[0] > r.now().Add(30*time.Minute).UnixMicro() || len(due) == 0 && n == 3
			})
			r.pass(time.Hour)
		}
		if got := r.arrived(); got[0].ID != got[1].ID || got[1].ID != got[2].ID {
			t.Errorf("the ids differ: %+v", got)
		}
	})
}

func TestNotifier_sends_what_a_dead_process_had_begun(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db)
		hangs := make(chan struct{})
		dying := notify.New(notify.Deps{
			DB: db, Log: slog.New(slog.DiscardHandler), Now: r.now, Timeout: time.Second,
			Names: func(context.Context, []string) (map[string]string, error) { return nil, nil },
			Send: func(context.Context, string, []byte, int64) notify.Verdict {
				close(hangs)
				<-t.Context().Done() // it ends with the test: nothing is written down before
				return notify.Verdict{Again: time.Now(), Reason: "too late"}
			},
		})
		r.note(notice.Notice{Type: notice.ReceiverFailing, SupplierID: "a"})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error)
		go func() { ended <- dying.Run(ctx) }()
		t.Cleanup(func() { stop(); <-ended })
		<-hangs
		r.run(1)
		r.pass(7 * time.Second)
		r.until("another process sends it", func() bool { return len(r.arrived()) == 1 })
	})
}

func TestNotifier_stores_any_error_shortened_between_its_characters(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db)
		r.run(1)
		texts := []string{"x" + strings.Repeat("é", 300), "status \x00503\xff", strings.Repeat("\x80", 600) + "é"}
		for i, want := range []string{"x" + strings.Repeat("é", 249), "status 503", ""} {
			r.note(notice.Notice{Type: notice.ReceiverFailing, SupplierID: fmt.Sprint(i), Error: texts[i]})
			r.until("the event", func() bool { return len(r.arrived()) == i+1 })
			if e := r.arrived()[i].Data.LastError; (e == nil) != (want == "") || e != nil && *e != want {
				t.Errorf("%q is sent as %+v", texts[i], r.arrived()[i].Data)
			}
		}
	})
}

func TestNotifier_that_is_none_takes_nothing(t *testing.T) {
	t.Parallel()
	var d *notify.Notifier
	if d.Open() || d.Note(t.Context(), notice.Notice{}) != nil || d.Run(t.Context()) != nil {
		t.Error("it is there")
	}
}

func TestNotifier_follows_a_clock_that_is_set_back(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db)
		stop := r.run(1)
		r.pass(time.Hour) // ahead
		r.note(notice.Notice{Type: notice.DeliveryDead, SupplierID: "a", Subject: "msg_1"})
		r.gathered()
		stop()             // a step under way would go on with the time that it read
		r.pass(-time.Hour) // right again
		if err := r.notifier().SetBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.run(1)
		r.note(notice.Notice{Type: notice.DeliveryDead, SupplierID: "a", Subject: "msg_2"})
		r.gathered()
		if got := r.arrived(); len(got) > 0 {
			t.Fatalf("sent before its minute was over: %+v", got)
		}
		r.pass(62 * time.Second)
		r.until("the minute's event", func() bool { return len(r.arrived()) == 1 })
		if got := r.arrived()[0]; got.Data.Count != 2 {
			t.Errorf("%+v", got)
		}
	})
}

func TestSetBack_where_no_clock_jumped_leaves_an_event_put_off(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		r := newRig(t, db)
		again := r.now().Add(6 * time.Hour).UnixMicro()
		databasetest.Exec(t, db, `INSERT INTO operator_events (id, type, supplier_id, supplier_name, paused_by, count, ids,
			last_error, at, due_at, attempts) VALUES ('msg_1', '', '', '', '', 1, '[]', '', ?, ?, 7)`,
			r.now().UnixMicro(), again)
		if err := r.notifier().SetBack(t.Context()); err != nil {
			t.Fatal(err)
		}
		var due int64
		err := db.From(t.Context()).Raw(`SELECT due_at FROM operator_events`).Scan(&due).Error
		if err != nil || due != again {
			t.Errorf("it is due %s early: %v", time.Duration(again-due)*time.Microsecond, err)
		}
	})
}
