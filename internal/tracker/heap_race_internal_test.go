//go:build race

package tracker

// heapSlack is how much more than its own count a map may hold, in quarters: the race detector turns the allocator of
// tiny objects off.
const heapSlack = 6
