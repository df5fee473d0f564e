package app

import (
	"os"
	"runtime/debug"
)

const (
	collectAt = 400      // percent of what lives: a process holds 10 to 20 MiB, and each collection costs it CPU
	softLimit = 80 << 20 // bytes of Go's own, from which on the collector works as often as it must; SQLite's come on top
)

// tuneMemory trades memory that nobody misses for CPU, unless GOGC or GOMEMLIMIT say otherwise.
func tuneMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(collectAt)
	}
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(softLimit)
	}
}
