package deliveries

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// retryAfter is when a refusal of what is used up says to come back; 0 for any other error.
func retryAfter(err error) time.Duration {
	if e := (*errs.Error)(nil); errors.As(err, &e) && e.Kind == errs.Exhausted {
		return e.RetryAfter
	}
	return 0
}

func TestRecovery_keeps_others_of_its_supplier_out_over_all_replicas(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		first, second := selfService(t, db, now), selfService(t, db, now.Add(recoveryFor-time.Second))
		running, err := first.begin(t.Context(), "acme")
		if err != nil {
			t.Fatal(err)
		}
		filter := SentFilter{Status: undelivered}
		_, err = second.Recover(t.Context(), "acme", filter)
		if retryAfter(err) <= 0 {
			t.Errorf("a second one: %v", err)
		}
		if _, err := second.Recover(t.Context(), "other", filter); err != nil {
			t.Errorf("another supplier's: %v", err)
		}
		if err := running.end(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := second.Recover(t.Context(), "acme", filter); err != nil {
				t.Errorf("after its end: %v", err)
			}
		}
		if _, err := first.begin(t.Context(), "acme"); err != nil { // its process dies
			t.Fatal(err)
		}
		for name, at := range map[string]time.Time{"when its time is over": now.Add(recoveryFor + time.Second),
			"when the clock was set back": now.Add(-time.Hour)} {
			later, err := selfService(t, db, at).begin(t.Context(), "acme")
			if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			gone, leave := context.WithCancel(t.Context())
			leave()
			if err := later.end(gone); err != nil {
				t.Fatal(err)
			}
			if _, err := first.begin(t.Context(), "acme"); err != nil {
				t.Fatal(err)
			}
		}
	})
}

func TestRecovery_leaves_what_is_pending_for_a_paused_receiver_alone(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		s := selfService(t, db, time.UnixMicro(1_000_000))
		sentRows(t.Context(), t, db, 1, 3, Pending)
		sentRows(t.Context(), t, db, 4, 5, Dead)
		exec(t.Context(), t, db, `UPDATE webhook_deliveries SET next_attempt_at = 9000000 WHERE status = 'pending'`)
		exec(t.Context(), t, db, `INSERT INTO webhook_receivers (supplier_id, shard, paused_by, updated_at)
			VALUES ('acme', 1, 'supplier', 1)`)
		for _, want := range []int64{2, 0} { // the dead ones are pending then
			if n, err := s.Recover(t.Context(), "acme", SentFilter{Status: undelivered}); err != nil || n != want {
				t.Errorf("%d recovered, want %d: %v", n, want, err)
			}
		}
		untouched, err := database.Column[int64](t.Context(), db.SQL(t.Context()),
			`SELECT count(*) FROM webhook_deliveries WHERE next_attempt_at = 9000000`)
		if err != nil || untouched[0] != 3 {
			t.Errorf("%v are as they were: %v", untouched, err)
		}
		exec(t.Context(), t, db, `UPDATE webhook_receivers SET paused_by = ''`)
		if n, err := s.Recover(t.Context(), "acme", SentFilter{Status: Pending}); err != nil || n != 5 {
			t.Errorf("%d recovered after the pause: %v", n, err)
		}
	})
}

func TestDelivery_that_was_delivered_is_sent_again_once_a_minute(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		now := time.Date(2026, 11, 25, 12, 0, 0, 0, time.UTC)
		sentRows(t.Context(), t, db, 1, 4, Delivered)
		for n, ago := range []time.Duration{0, 59 * time.Second, 61 * time.Second, -time.Hour} {
			again := now.Add(-ago).UnixMicro()
			exec(t.Context(), t, db, `UPDATE webhook_deliveries SET attempts = 2, series = 1, last_started_at = ?,
				resent_at = CASE WHEN uid > 1 THEN CAST(? AS bigint) END WHERE uid = ?`, again, again, n+1) // the first had failed
		}
		s := selfService(t, db, now)
		err := s.Redeliver(t.Context(), "acme", "msg_10000000002")
		if retryAfter(err) != time.Second {
			t.Errorf("again 59 s after it was sent again: %v", err)
		}
		if n, err := s.Recover(t.Context(), "acme", SentFilter{Status: Delivered}); err != nil || n != 3 {
			t.Errorf("%d recovered: %v", n, err)
		}
		if n, err := selfService(t, db, now.Add(2*time.Second)).Recover(t.Context(), "acme",
			SentFilter{Status: Delivered}); err != nil || n != 1 {
			t.Errorf("%d recovered when the minute was over: %v", n, err)
		}
	})
}
