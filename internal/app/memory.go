package app

import (
	"cmp"
	"math"
	"net"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"golang.org/x/net/netutil"
)

// A process lives on 10 to 20 MiB, and Go by itself would collect it all the time under load. It is therefore
// collected when 64 MiB more were allocated, or less where the container allows less, and connections are bounded by
// the memory that there is: strangers can fill it with slow requests.

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

// connectionBytes is what a connection of a stranger holds that sends as much as it may, as slowly as it may: headers,
// a body, their buffers.
const connectionBytes = 64 << 10

// bounded accepts as many connections as fit into half of the process's memory; without a limit of that, any number.
// Others wait in the system's queue.
func bounded(l net.Listener, memory int64) net.Listener {
	if memory == math.MaxInt64 {
		return l
	}
	return netutil.LimitListener(l, int(max(memory/2/connectionBytes, 1)))
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
