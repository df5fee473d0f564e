package sending

import (
	"slices"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/round"
)

func TestWake_up_by_a_forger_makes_a_worker_look_at_shards_and_does_nothing_else(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newIdle(t, db)
		begunRow(t, db, "msg_1000a", 1)
		d.hold("msg_1000a")
		for _, message := range [][]byte{nil, {0}, {1, 2, 3}, slices.Repeat([]byte{255}, 1<<20),
			[]byte(`{"body":"sign this"}`)} {
			d.woken(message)
			if n := len(d.wakeUps.shards()); n > round.Shards {
				t.Errorf("%d shards of %d bytes", n, len(message))
			}
		}
		attempts, err := deliveries.NewAttemptStore(d.deps.DB).Begun(t.Context(), 8)
		if err != nil || len(attempts) != 1 || d.scheduler.InFlight() > 0 || d.held["msg_1000a"] != 1 {
			t.Errorf("begun are %v, %d are in flight: %v", attempts, d.scheduler.InFlight(), err)
		}
	})
}

func TestWake_up_names_shards_once_and_remembers_when_one_of_their_receivers_was_paused(t *testing.T) {
	t.Parallel()
	var w wakeUps
	before := time.Now()
	w.take(appendWakeUp(appendWakeUp(appendWakeUp(nil, shardDue, "acme"), shardDue, "acme"), shardPaused, "brico"))
	if n := len(w.shards()); n != 2 {
		t.Errorf("%d shards", n)
	}
	if len(w.shards()) > 0 {
		t.Error("they are looked at twice")
	}
	if w.pausedSince("acme", before) || !w.pausedSince("brico", before) || w.pausedSince("brico", time.Now()) {
		t.Error("a pause is remembered of the wrong shard or moment")
	}
}
