package sending

import (
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
