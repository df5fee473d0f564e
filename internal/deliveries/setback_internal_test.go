package deliveries

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
)

func TestSetBack_has_what_was_written_in_the_future_wait_from_now_on(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	const (
		before = 10 * time.Minute // so far ahead the clock was
		right  = "the next of a receiver that is due then"
	)
	rows := map[string]struct {
		updated, next, want time.Duration // from now
		held                bool
	}{
		"due when the clock was set back":       {before - time.Second, before - time.Second, 0, false},
		"to be tried again in two minutes":      {before - time.Minute, before + time.Minute, 2 * time.Minute, false},
		"written long ago, to be tried again":   {-time.Hour, 3 * time.Minute, 3 * time.Minute, false},
		"written after the clock was set back":  {0, 5 * time.Second, 5 * time.Second, false},
		"written by one who is a little ahead":  {500 * time.Millisecond, 5 * time.Second, 5 * time.Second, false},
		"under way":                             {before, before, before, true},
		"due for long":                          {-time.Hour, -time.Hour, -time.Hour, false},
		"given back by one who is still behind": {before + time.Second, before, -time.Second, false},
		right:                                   {-time.Hour, time.Hour, time.Hour, false},
	}
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := NewKeeper(KeeperDeps{DB: db, Now: func() time.Time { return now }})
		want, names := map[string]time.Duration{}, map[string]string{"acme": "acme", "other": "other", "right": "right"}
		for name, row := range rows {
			want[name] = row.want
			id := fmt.Sprintf("msg_1000%c", 'a'+len(want))
			names[id] = name
			var worker *int64
			if row.held {
				worker = new(int64)
			}
			updated, receiver := now.Add(row.updated).UnixMicro(), "acme"
			if name == right {
				receiver = "right"
			}
			if err := db.From(t.Context()).Exec(`INSERT INTO webhook_deliveries (id, uid, round, destination, supplier_id,
					request_id, status, worker, attempts, series, next_attempt_at, created_at, updated_at, last_started_at)
				VALUES (?, ?, 1, ?, ?, 1, 'pending', ?, 1, 1, ?, ?, ?, ?)`, id, len(want), receiver, receiver, worker,
				now.Add(row.next).UnixMicro(), updated, updated, updated).Error; err != nil {
				t.Fatal(err)
			}
		}
		for supplier, due := range map[string]time.Duration{"acme": before, "other": -time.Hour, "right": time.Hour} {
			if err := db.From(t.Context()).Exec(`INSERT INTO webhook_receivers (supplier_id, shard, due_at, updated_at)
				VALUES (?, 1, ?, 1)`, supplier, now.Add(due).UnixMicro()).Error; err != nil {
				t.Fatal(err)
			}
		}
		waits := func(query string) map[string]time.Duration {
			t.Helper()
			got, err := database.Query(t.Context(), db.SQL(t.Context()), query, nil,
				func(r *DueRow) []any { return []any{&r.Destination, scanTime{&r.At}} })
			if err != nil {
				t.Fatal(err)
			}
			list := map[string]time.Duration{}
			for _, r := range got {
				list[names[r.Destination]] = r.At.Sub(now)
			}
			return list
		}
		for turn := range 2 { // the second changes nothing
			if err := d.SetBack(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, waits(`SELECT id, next_attempt_at FROM webhook_deliveries`)); diff != "" {
				t.Errorf("turn %d: deliveries wait (-want +got):\n%s", turn+1, diff)
			}
			if diff := cmp.Diff(map[string]time.Duration{"acme": 0, "other": -time.Hour, "right": time.Hour},
				waits(`SELECT supplier_id, due_at FROM webhook_receivers`)); diff != "" {
				t.Errorf("turn %d: receivers are due (-want +got):\n%s", turn+1, diff)
			}
		}
	})
}

func TestSetBack_leaves_due_what_was_pending_and_redelivered(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for name, jump := range map[string]time.Duration{
		"to a time after its last attempt": 10 * time.Minute, "to a time before it": time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			databasetest.Each(t, func(t *testing.T, db *database.DB) {
				now := began
				d := NewKeeper(KeeperDeps{DB: db, Now: func() time.Time { return now }})
				sentRows(t.Context(), t, db, 1, 1, Pending)
				exec(t.Context(), t, db, fmt.Sprintf(`UPDATE webhook_deliveries SET next_attempt_at = %d, updated_at = %d`,
					began.Add(2*time.Hour).UnixMicro(), began.Add(-30*time.Minute).UnixMicro()))
				if n, err := d.RedeliverAll(t.Context(), Filter{Receiver: "acme", Status: Pending}); err != nil || n != 1 {
					t.Fatalf("%d are redelivered: %v", n, err)
				}
				due := func() time.Duration {
					t.Helper()
					at, err := database.Column[int64](t.Context(), db.SQL(t.Context()),
						`SELECT next_attempt_at FROM webhook_deliveries`)
					if err != nil || len(at) != 1 {
						t.Fatal(at, err)
					}
					return time.UnixMicro(at[0]).Sub(now)
				}
				if wait := due(); wait != 0 {
					t.Errorf("redelivered, it is due %s later", wait)
				}
				now = began.Add(-jump)
				if err := d.SetBack(t.Context()); err != nil {
					t.Fatal(err)
				}
				if wait := due(); wait != 0 {
					t.Errorf("after the clock went back it is due %s later", wait)
				}
			})
		})
	}
}
