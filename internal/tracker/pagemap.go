package tracker

import (
	"math"
	"runtime/debug"
	"sync"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

// Page maps make deep pages cheap. They are kept in memory for each state that was asked for lately: of the listing,
// how many records each load day has; of the snapshot, the winners' ids in order. A state never changes, so a map is
// right for as long as it is kept. All maps together have a bounded size in bytes, and the oldest go first. A process
// that restarts makes them again.

const (
	mapsBytes   = 64 << 20 // that the page maps hold together at most
	mapsShare   = 8        // of the memory limit they hold one part in so many
	entryBytes  = 320      // of a map with nothing in it: its key, its struct and its places in the list and the index
	dayBytes    = 40       // of a day's count with its text
	winnerBytes = 8
)

// mapKey names what a map says something about. It never changes: rows up to maxID of one generation are what they are.
type mapKey struct {
	view string
	state
	listing string
}

// dayCount is how many rows of a list are on a load day.
type dayCount struct {
	day     string
	records int64
}

// days is a list by load day, newest first.
type days []dayCount

// total returns how many records there are.
func (d days) total() (n int64) {
	for _, c := range d {
		n += c.records
	}
	return n
}

// at returns the day of the row at the offset, which is less than the total, and how many of the day's rows are above
// it.
func (d days) at(offset int64) (day string, skip int64) {
	for _, c := range d {
		if offset < c.records {
			return c.day, offset
		}
		offset -= c.records
	}
	return "", 0
}

// of returns how many rows the day has.
func (d days) of(day string) int64 {
	for _, c := range d {
		if c.day == day {
			return c.records
		}
	}
	return 0
}

// pageMaps remembers days and winners by what they were read from, the least used are forgotten.
type pageMaps struct {
	bound int // bytes

	mu    sync.Mutex
	bytes int
	known *simplelru.LRU[mapKey, *pageMap]
}

// pageMap has what a listing needs of a state.
type pageMap struct {
	days    days
	winners []int64 // ids of the devices' records, by device
	day     string  // the latest on which a device pinged
	bytes   int     // with its key, set by put
}

// newPageMaps bounds the maps by the memory limit, the container's or GOMEMLIMIT; without one there is mapsBytes.
func newPageMaps() *pageMaps {
	known, err := simplelru.NewLRU[mapKey, *pageMap](math.MaxInt, nil)
	if err != nil {
		panic(err) // of a size that is not positive
	}
	return &pageMaps{bound: int(min(mapsBytes, debug.SetMemoryLimit(-1)/mapsShare)), known: known}
}

// get returns the map of a key, if it is remembered.
func (p *pageMaps) get(key mapKey) (*pageMap, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known.Get(key)
}

// put remembers a map that does not change any more; one that is too large alone is not remembered.
func (p *pageMaps) put(key mapKey, m *pageMap) {
	m.bytes = size(key, m)
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, found := p.known.Peek(key); found {
		p.bytes -= old.bytes
	}
	p.known.Add(key, m)
	for p.bytes += m.bytes; p.bytes > p.bound; {
		_, oldest, _ := p.known.RemoveOldest()
		p.bytes -= oldest.bytes
	}
}

// size returns about how many bytes the map and its key hold.
func size(key mapKey, m *pageMap) int {
	return entryBytes + len(key.view) + len(key.listing) + len(key.day) + len(m.day) + cap(m.days)*dayBytes +
		cap(m.winners)*winnerBytes
}
