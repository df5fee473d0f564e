package deliveries

import (
	"fmt"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestWaiting_counts_what_is_pending_for_each_receiver_and_finds_the_oldest(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, d := t.Context(), process(db, time.Now())
		for uid, delivery := range []struct {
			to     string
			status Status
			worker any
		}{
			{"acme", Delivered, nil}, {"acme", Pending, 7}, {"acme", Pending, nil}, {"acme", Pending, nil}, {"acme", Dead, nil},
			{"zoo", Pending, nil}, {"done", Delivered, nil}, {OwnEndpoint, Pending, nil},
		} {
			exec(ctx, t, db, `INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status,
				worker, attempts, series, next_attempt_at, created_at, updated_at)
				VALUES (?, ?, 1, ?, 'acme', 1, ?, ?, 0, 0, 0, ?, ?)`,
				fmt.Sprintf("msg_1%03dx", uid+1), uid+1, delivery.to, delivery.status, delivery.worker, uid+101, uid+101)
		}
		for _, tt := range []struct {
			most int
			acme int64
		}{{10, 3}, {2, 2}} {
			found, err := d.Waiting(ctx, []string{"acme", "done", "none", "zoo"}, tt.most)
			if err != nil || len(found) != 4 {
				t.Fatalf("up to %d: %+v, %v", tt.most, found, err)
			}
			for id, want := range map[string]struct{ n, oldest int64 }{
				"acme": {tt.acme, 102}, "zoo": {1, 106}, "done": {}, "none": {},
			} {
				got := found[id]
				if got.N != want.n || got.Oldest.IsZero() != (want.n == 0) || want.n > 0 && got.Oldest.UnixMicro() != want.oldest {
					t.Errorf("up to %d for %s: %d since %v, want %+v", tt.most, id, got.N, got.Oldest, want)
				}
			}
		}
		if found, err := d.Waiting(ctx, nil, 1); err != nil || len(found) != 0 {
			t.Errorf("for no one: %+v, %v", found, err)
		}
	})
}

func TestWaiting_a_delivery_that_was_redelivered_waits_since_then(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		ctx, d := t.Context(), process(db, time.Now())
		const created, updated, started = 100, 300, 200
		for id, tt := range map[string]struct{ series, attempts, want int64 }{
			"new": {0, 0, updated}, "redelivered": {0, 3, updated}, "retried": {2, 2, created},
			"redelivered and tried": {1, 3, started}, "redelivered and retried": {2, 5, created},
		} {
			for uid, at := range []int64{0, 50} { // the second one waits for longer, though it was accepted later
				exec(ctx, t, db, `INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id, request_id, status,
					attempts, series, next_attempt_at, created_at, updated_at, last_started_at)
					VALUES (?, ?, 1, ?, ?, 1, 'pending', ?, ?, 0, ?, ?, ?)`, fmt.Sprintf("msg_1%d%s", uid, id), uid+1, id, id,
					tt.attempts, tt.series, created-at, updated-at, started-at)
			}
			found, err := d.Waiting(ctx, []string{id}, 10)
			if got := found[id].Oldest.UnixMicro(); err != nil || found[id].N != 2 || got != tt.want-50 {
				t.Errorf("%s: %+v, %v; want since %d", id, found[id], err, tt.want-50)
			}
		}
	})
}
