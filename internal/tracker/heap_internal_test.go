//go:build !race

package tracker

// heapSlack is how much more than its own count a map may hold, in quarters.
const heapSlack = 5
