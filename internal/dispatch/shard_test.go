package dispatch_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/round"
)

// Workers come, go and die; each in its turn acts upon what it reads, and only takes what no living worker owns.
func TestAssign_balances_the_shards_and_moves_no_more_than_that_takes(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		owners := make([]int64, round.Shards)
		for range rapid.IntRange(1, 6).Draw(rt, "changes") {
			live := rapid.SliceOfNDistinct(rapid.Int64Range(1, 20), 1, 12, rapid.ID).Draw(rt, "live")
			target := dispatch.Assign(owners, live)
			owned, before, moved, orphans := map[int64]int{}, map[int64]int{}, 0, 0
			for shard, worker := range target {
				owned[worker]++
				before[owners[shard]]++
				if !slices.Contains(live, worker) {
					rt.Fatalf("shard %d goes to %d, who is not alive", shard, worker)
				}
				if worker != owners[shard] {
					moved++
				}
				if !slices.Contains(live, owners[shard]) {
					orphans++
				}
			}
			low, high := round.Shards/len(live), (round.Shards+len(live)-1)/len(live)
			excess := 0
			for _, worker := range live {
				if n := owned[worker]; n < low || n > high {
					rt.Fatalf("worker %d owns %d of %d among %d", worker, n, round.Shards, len(live))
				}
				excess += max(0, before[worker]-owned[worker])
			}
			if moved != orphans+excess {
				rt.Fatalf("%d shards move, %d have no owner and %d too many somewhere", moved, orphans, excess)
			}
			if again := dispatch.Assign(target, live); !slices.Equal(again, target) {
				rt.Fatal("what is assigned well moves again")
			}
			slices.Reverse(live)
			if other := dispatch.Assign(owners, live); !slices.Equal(other, target) {
				rt.Fatal("two workers disagree")
			}
			owners = target
		}
	})
	if got := dispatch.Assign(make([]int64, 4), nil); !slices.Equal(got, make([]int64, 4)) {
		t.Errorf("no worker lives, and %v own", got)
	}
}
