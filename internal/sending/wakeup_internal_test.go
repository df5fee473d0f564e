package sending

import (
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
		for shard := range round.Shards {
			d.Woken(round.Message{Shard: shard, Paused: shard%2 == 0})
		}
		if n := len(d.wakeUps.shards()); n != round.Shards {
			t.Errorf("%d shards", n)
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
	for _, m := range []round.Message{{Shard: round.ShardOf("acme")}, {Shard: round.ShardOf("acme")},
		{Shard: round.ShardOf("brico"), Paused: true}} {
		w.take(m)
	}
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
