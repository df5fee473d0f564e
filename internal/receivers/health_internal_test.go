package receivers

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/app/apptest/wait"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// While a supplier moves from one worker to another, the former owner's last calls end while the first ones run of the
// new owner.
func TestFailures_in_a_row_add_up_whichever_worker_saw_them(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		var workers [2]*Registry
		for i := range workers {
			workers[i] = NewRegistry(RegistryDeps{DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now,
				Deliveries: deliveries.NewKeeper(deliveries.KeeperDeps{DB: db, Now: time.Now}),
				Announce:   func(bool, string) {}})
		}
		second := int64(0)
		for _, step := range []struct {
			calls string // A and B: failures that the workers saw, a and b: successes
			want  int
			since int // the second of the first of these failures, counted over all steps
		}{
			{"AABB", 4, 1}, {"A", 5, 1}, {"BB", 7, 1}, {"b", 0, 0}, {"AaBA", 2, 12}, {"BBB", 5, 12}, // stored first
		} {
			for _, call := range step.calls {
				second++
				w, r := workers[(call|0x20)-'a'],
					deliveries.Result{Begun: deliveries.Begun{Destination: "acme"}, Began: time.Unix(second, 0), Err: "refused"}
				if r.Outcome.Status = deliveries.Pending; call >= 'a' {
					r.Outcome.Status = deliveries.Delivered
				}
				w.Learn(t.Context(), r, dispatch.Streak{})
			}
			for _, w := range workers {
				w.storeHealth(t.Context())
			}
			state, err := workers[0].ReceiverState(t.Context(), "acme")
			if err != nil || state.Failures != step.want || state.Failing() != (step.want >= dispatch.FailingAt) ||
				!timeOf(state.FailingSince).Equal(time.Unix(int64(step.since), 0)) {
				t.Errorf("after %s: %+v, %v; want %d failures since %d", step.calls, state, err, step.want, step.since)
			}
		}
	})
}

func TestHealth_that_is_learnt_while_the_last_is_being_stored_is_stored_too(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := NewRegistry(RegistryDeps{DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Deliveries: deliveries.NewKeeper(deliveries.KeeperDeps{DB: db, Now: time.Now}), Announce: func(bool, string) {}})
		learn := func() {
			d.Learn(t.Context(), deliveries.Result{Begun: deliveries.Begun{Destination: "acme"}, Began: time.Unix(1, 0),
				Err: "refused", Outcome: deliveries.Outcome{Status: deliveries.Pending}}, dispatch.Streak{})
		}
		learn()
		d.storeHealth(t.Context())
		learn()
		release := databasetest.Freeze(t, db, `UPDATE webhook_receivers SET updated_at = updated_at`)
		ctx, end := context.WithCancel(t.Context())
		kept := make(chan struct{})
		go func() { defer close(kept); d.KeepHealth(ctx) }()
		wait.Until(t, "the second one is being stored", func() bool {
			d.news.mu.Lock()
			defer d.news.mu.Unlock()
			return len(d.news.news) == 0
		})
		learn()
		end()
		release()
		<-kept
		if state, err := d.ReceiverState(t.Context(), "acme"); err != nil || state.Failures != 3 {
			t.Errorf("%d failures are stored, want 3: %v", state.Failures, err)
		}
	})
}

// timeOf is the beginning of time for nil.
func timeOf(at *time.Time) time.Time {
	if at == nil {
		return time.Unix(0, 0)
	}
	return *at
}

func TestFailures_count_once_when_the_COMMIT_that_stores_them_gets_no_answer(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		end     database.End
		success time.Time
		want    int
	}{{database.RolledBack, time.Time{}, 3}, {database.Unknown, time.Time{}, 0}, {database.Unknown, time.Unix(1, 0), 3}} {
		l := newHealthLog()
		l.unstored(map[string]health{"acme": {failures: 3, success: test.success, lastError: "refused"}}, test.end)
		if got := l.take()["acme"]; got.failures != test.want || got.lastError != "refused" {
			t.Errorf("after %v with a success at %v: %+v, want %d failures", test.end, test.success, got, test.want)
		}
	}
}
