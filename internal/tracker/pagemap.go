package tracker

import (
	"slices"
	"sort"
	"sync"
)

// mapsBound is how many entries the page maps hold together: about 64 MiB.
const mapsBound = 2_000_000

// mapKey names what a map says something about. It never changes: rows up to maxID of one generation are what they are.
type mapKey struct {
	view string
	state
	listing string
}

// dayCount is how many rows of a list stand on a load day; before is how many stand on the days above it.
type dayCount struct {
	day     string
	records int64
	before  int64
}

// days is a list by load day, newest first.
type days []dayCount

func (d days) total() int64 {
	if len(d) == 0 {
		return 0
	}
	last := d[len(d)-1]
	return last.before + last.records
}

// at is the day on which the row at the offset stands and how many of the day's rows stand above it.
func (d days) at(offset int64) (day string, skip int64) {
	i := sort.Search(len(d), func(i int) bool { return d[i].before > offset }) - 1
	return d[i].day, offset - d[i].before
}

// of is how many rows the day has.
func (d days) of(day string) int64 {
	i, found := slices.BinarySearchFunc(d, day, func(c dayCount, day string) int {
		switch { // newest first
		case c.day > day:
			return -1
		case c.day < day:
			return 1
		default:
			return 0
		}
	})
	if !found {
		return 0
	}
	return d[i].records
}

// newDays adds up counts that come newest first.
func newDays(counts []dayCount) days {
	var before int64
	for i := range counts {
		counts[i].before = before
		before += counts[i].records
	}
	return counts
}

// winner is the row that stands for a device in a snapshot.
type winner struct {
	device int64
	id     string
}

// pageMaps remembers days and winners by what they were read from, the least used are forgotten.
type pageMaps struct {
	mu    sync.Mutex
	size  int
	turn  int64
	known map[mapKey]*pageMap
}

type pageMap struct {
	days    days
	winners []winner
	day     string // the latest on which a device pinged
	used    int64
}

func (m *pageMap) weight() int { return len(m.days) + len(m.winners) + 1 }

func newPageMaps() *pageMaps { return &pageMaps{known: map[mapKey]*pageMap{}} }

func (p *pageMaps) get(key mapKey) (*pageMap, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	m, found := p.known[key]
	if found {
		p.turn++
		m.used = p.turn
	}
	return m, found
}

func (p *pageMaps) put(key mapKey, m *pageMap) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, found := p.known[key]; found {
		p.size -= old.weight()
	}
	p.turn++
	m.used = p.turn
	p.known[key] = m
	for p.size += m.weight(); p.size > mapsBound && len(p.known) > 1; {
		p.forgetOne()
	}
}

func (p *pageMaps) forgetOne() {
	var oldest mapKey
	least := p.turn + 1
	for key, m := range p.known {
		if m.used < least {
			oldest, least = key, m.used
		}
	}
	p.size -= p.known[oldest].weight()
	delete(p.known, oldest)
}
