package tracker

import (
	"fmt"
	"runtime"
	"strconv"
	"testing"
)

// fill puts maps of so many winners each, until the bound was reached twice.
func fill(p *pageMaps, winners int) {
	for put, i := 0, 0; put < 2*p.bound; i++ {
		m := &pageMap{winners: make([]int64, winners), day: "2026-11-22"}
		for j := range m.winners {
			m.winners[j] = int64(1_000_000 + i*winners + j)
		}
		key := mapKey{view: "tracker_client_1", state: state{generation: 1, maxID: int64(i)}, listing: "snapshot"}
		p.put(key, m)
		put += m.bytes
	}
}

func TestPageMaps_hold_no_more_bytes_than_they_say(t *testing.T) { //nolint:paralleltest // it measures the heap
	for _, winners := range []int{0, 1, 100, 50_000} {
		t.Run(strconv.Itoa(winners), func(t *testing.T) {
			p := newPageMaps()
			p.bound = 16 << 20
			before := heap()
			fill(p, winners)
			held := heap() - before
			if p.bytes > p.bound || held > int64(p.bound)*heapSlack/4 {
				t.Errorf("%d bytes by its own count, %d in truth, of %d", p.bytes, held, p.bound)
			}
			if held < int64(p.bound)/2 {
				t.Errorf("only %d bytes are used of %d", held, p.bound)
			}
			runtime.KeepAlive(p)
		})
	}
}

func heap() int64 {
	runtime.GC()
	runtime.GC() // what the first one left to be swept
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

func TestPageMaps_forget_the_least_used(t *testing.T) {
	t.Parallel()
	p := newPageMaps()
	p.bound = 4 * (entryBytes + 16)
	key := func(i int) mapKey { return mapKey{view: fmt.Sprint(i)} }
	for i := range 4 {
		p.put(key(i), &pageMap{})
	}
	p.get(key(0))
	p.put(key(4), &pageMap{})
	p.put(key(5), &pageMap{winners: make([]int64, 1000)}) // larger than all together
	for i, want := range []bool{true, false, false, false, false, false} {
		if _, found := p.get(key(i)); found != want && i > 0 {
			t.Errorf("%d is known: %t", i, found)
		}
	}
}

// BenchmarkPageMaps puts and gets with a cache that is empty or full: the full one costs about the same.
func BenchmarkPageMaps(b *testing.B) {
	for name, full := range map[string]bool{"empty": false, "full of winners": true} {
		b.Run(name, func(b *testing.B) {
			p := newPageMaps()
			if full {
				fill(p, 1000)
			}
			page := make([]byte, 0, 100)
			for i := 0; b.Loop(); i++ {
				key := mapKey{view: "v", state: state{maxID: int64(i % 1000)}, listing: "plain"}
				if _, found := p.get(key); !found {
					p.put(key, &pageMap{days: days{{day: "2026-11-22", records: 1}}})
				}
				page = append(make([]byte, 0, 100_000), page[:0]...) // a page's text, which the collector takes
			}
		})
	}
}
