package dispatch

import (
	"cmp"
	"slices"
)

// NoOwner is the owner of a shard that no worker owns.
const NoOwner int64 = 0

// Assign returns which worker is to own each shard, given who owns it now and who lives. Shares differ by at most
// one, and as few shards move as possible. The same input gives the same answer in each worker.
func Assign(owners, live []int64) []int64 {
	target := make([]int64, len(owners))
	workers := slices.Compact(slices.Sorted(slices.Values(live)))
	if len(workers) == 0 {
		return target
	}
	quota := quotas(owners, workers)
	for shard, owner := range owners {
		if quota[owner] > 0 {
			quota[owner]--
			target[shard] = owner
		}
	}
	next := 0
	for shard := range target {
		if target[shard] != NoOwner {
			continue
		}
		for quota[workers[next]] == 0 {
			next++
		}
		quota[workers[next]]--
		target[shard] = workers[next]
	}
	return target
}

// quotas returns how many shards each worker is to own; the odd ones stay with those that own most.
func quotas(owners, workers []int64) map[int64]int {
	owned := make(map[int64]int, len(workers))
	for _, owner := range owners {
		owned[owner]++
	}
	byOwned := slices.Clone(workers)
	slices.SortStableFunc(byOwned, func(a, b int64) int { return cmp.Compare(owned[b], owned[a]) })
	quota := make(map[int64]int, len(workers))
	for i, worker := range byOwned {
		quota[worker] = len(owners) / len(workers)
		if i < len(owners)%len(workers) {
			quota[worker]++
		}
	}
	return quota
}
