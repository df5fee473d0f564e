package app

import (
	"cmp"
	"math"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"

	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// A process lives on 10 to 20 MiB, and Go by itself would collect it all the time under load. It is therefore
// collected when 64 MiB more were allocated, or less where the container allows less, and what callers make it hold is
// bounded by the memory that there is.

const (
	mostHeadroom  = 64 << 20 // bytes that may be allocated between two collections; more where more lives
	headroomShare = 8        // of the process's limit, where that is less
	leastPercent  = 100      // Go's own
	mostPercent   = 800      // a process holds 10 to 20 MiB, and each collection costs it CPU
	percentStep   = 10       // a smaller change is not worth stopping the world for
)

// tuneMemory trades spare memory for CPU, unless GOGC says otherwise. The limit is the container's, unless
// GOMEMLIMIT gives one; there is none of our own.
func tuneMemory() {
	_, _ = memlimit.Set() // nine tenths of the cgroup's limit; where there is no cgroup there is no limit
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(mostPercent)
		retune(&collected{mostPercent, uint64(min(mostHeadroom, debug.SetMemoryLimit(-1)/headroomShare))})
	}
}

// collected is garbage once a collection, to notice it.
type collected struct {
	percent  int
	headroom uint64
}

// Callers may make the process hold parts of its memory, which are left to garbage otherwise: the collector needs room.
const (
	knownPart     = 4       // a quarter: bodies and answers of callers that are known
	strangersPart = 5       // a fifth: connections, and what is read before a caller is known
	operatorPart  = 16      // a sixteenth: the operator's listener
	unlimited     = 4 << 30 // bytes that a process has at most where nothing limits it
)

// ledger returns the one of the public listener.
func ledger() *httpapi.Ledger {
	memory := memoryThere()
	return httpapi.NewLedger(memory/knownPart, memory/strangersPart)
}

// operatorLedger returns the one of the operator's listener, whose callers are not known.
func operatorLedger() *httpapi.Ledger { return httpapi.NewLedger(0, memoryThere()/operatorPart) }

// memoryThere returns the process's limit, or the machine's memory where it has none.
func memoryThere() int64 {
	if limit := debug.SetMemoryLimit(-1); limit != math.MaxInt64 {
		return limit
	}
	if machine, err := memlimit.FromSystem(); err == nil {
		return int64(min(machine, unlimited))
	}
	return unlimited
}

// retune sets the collector after each collection by what lives: a cache that fills changes how much is held, never how
// often is collected for a byte allocated.
func retune(last *collected) {
	runtime.AddCleanup(last, func(before collected) {
		sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
		metrics.Read(sample)
		now := before
		if wanted := percentFor(sample[0].Value.Uint64(), before.headroom); max(wanted-now.percent,
			now.percent-wanted) >= percentStep {
			now.percent = wanted
			debug.SetGCPercent(wanted)
		}
		retune(&now)
	}, *last)
}

// percentFor returns GOGC for so many living bytes.
func percentFor(live, headroom uint64) int {
	return min(max(int(headroom*100/cmp.Or(live, 1)), leastPercent), mostPercent)
}
