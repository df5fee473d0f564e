package app

import (
	"os"
	"runtime"
	"runtime/debug"
)

const (
	collectAt = 400      // percent of what lives: a process holds 10 to 20 MiB, and each collection costs it CPU
	sampled   = 4 << 20  // bytes between two samples of the heap profile: with the default it costs 1.5 % of the CPU
	softLimit = 80 << 20 // bytes of Go's own, from which on the collector works as often as it must; SQLite's come on top
)

// tuneMemory trades memory that nobody misses for CPU, unless GOGC or GOMEMLIMIT say otherwise.
func tuneMemory() {
	runtime.MemProfileRate = sampled
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
	}
}
