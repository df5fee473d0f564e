package sending

import (
	"context"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/database/databasetest"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Workers that start together find the shards of those that stopped before them.
func TestOwner_is_none_while_the_shard_belongs_to_a_worker_that_does_not_live(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := New(Deps{DB: db, Log: slog.New(slog.DiscardHandler), Now: time.Now})
		t.Cleanup(d.Close)
		const mine, other, gone = 1, 2, 3
		m := members{live: []int64{mine, other}, owners: slices.Repeat([]int64{gone}, round.Shards)}
		m.owners[round.ShardOf("acme")] = other
		if err := d.own(t.Context(), nil, m); err != nil {
			t.Fatal(err)
		}
		for shard, owner := range d.ownership.owners {
			if want := map[bool]int64{true: other, false: dispatch.NoOwner}[shard == round.ShardOf("acme")]; owner != want {
				t.Errorf("the owner of shard %d is %d, want %d", shard, owner, want)
			}
		}
	})
}

// A worker that could not give its shards away, and is alone again, is no former owner of them.
func TestOwner_of_shards_that_were_never_taken_goes_on_with_them(t *testing.T) {
	t.Parallel()
	databasetest.Each(t, func(t *testing.T, db *database.DB) {
		d := newIdle(t, db)
		d.scheduler.Start()
		const mine, other = 8, 9
		alone := members{worker: mine, live: []int64{mine}, stay: []int64{mine},
			owners: slices.Repeat([]int64{mine}, round.Shards)}
		if err := d.own(t.Context(), allShards(), alone); err != nil {
			t.Fatal(err)
		}
		two := alone
		two.live, two.stay = []int64{mine, other}, []int64{mine, other}
		away, cancel := context.WithCancel(t.Context())
		cancel()
		if err := d.rebalance(away, mine, two); err == nil {
			t.Fatal("they were given away")
		}
		begunRow(t, db, "msg_1000a", 1)
		for range 2 {
			if err := d.rebalance(t.Context(), mine, alone); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := d.scheduler.Admit(dispatch.Destination{Name: "acme", Limit: 1}); !ok || len(d.ownership.former) > 0 {
			t.Errorf("its receiver is halted for attempts of %v", d.ownership.former)
		}
	})
}
