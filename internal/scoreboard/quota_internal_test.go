package scoreboard

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
)

// On SQLite no row is held: one connection writes.
func TestQuota_of_one_requester_is_spent_once_while_another_s_row_is_held(t *testing.T) {
	t.Parallel()
	db := databasetest.Open(t, database.Postgres)
	noon := func() time.Time { return time.Date(2026, 11, 21, 15, 0, 0, 0, time.UTC) }
	s := New(Deps{Quotas: NewQuotas(db, noon, noon), Log: slog.New(slog.DiscardHandler), Metrics: NewMetrics(nil)})
	t.Cleanup(s.Close)
	a, b := s.unit(requesterA), s.unit(requesterB)
	if _, err := s.take(t.Context(), requesterB); err != nil {
		t.Fatal(err)
	}
	release := databasetest.Freeze(t, db, "SELECT FROM scoreboard_usage WHERE requester = $1 FOR UPDATE", requesterB)
	grants, err := s.flushSpending(t.Context(), []spend{b, a, b, a})
	left, ok := errors.AsType[groupcommit.Undecided](err)
	if !ok || len(left) != 2 || left[0] != 0 || left[1] != 2 {
		t.Fatalf("to be tried again are %v (%v), want 0 and 2", left, err)
	}
	if !grants[1].granted || grants[1].used != 1 || !grants[3].granted || grants[3].used != 2 {
		t.Errorf("the other requester got %+v", grants)
	}
	if _, err := s.flushSpending(t.Context(), []spend{b}); !errs.IsPassing(err) {
		t.Errorf("one that is alone: %v", err)
	}
	release()
	for requester, want := range map[string]int64{requesterA: 3, requesterB: 2} {
		if g, err := s.take(t.Context(), requester); err != nil || g.used != want {
			t.Errorf("%s has spent %d, want %d: %v", requester, g.used, want, err)
		}
	}
}
