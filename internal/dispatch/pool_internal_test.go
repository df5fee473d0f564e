package dispatch

import (
	"sync"
	"testing"
)

func TestPool_does_each_work_once_and_keeps_a_bounded_number_of_goroutines(t *testing.T) {
	t.Parallel()
	const rounds, atOnce = 20, 2 * mostParked
	var mu sync.Mutex
	done := map[int]int{}
	var running sync.WaitGroup
	p := &pool[int]{work: func(n int) {
		defer running.Done()
		mu.Lock()
		defer mu.Unlock()
		done[n]++
	}}
	for round := range rounds {
		for i := range atOnce {
			running.Add(1)
			p.begin(round*atOnce + i)
		}
		running.Wait()
	}
	for i := range rounds * atOnce {
		if n := done[i]; n != 1 {
			t.Errorf("work %d was done %d times", i, n)
		}
	}
	p.mu.Lock()
	parked := len(p.parked)
	p.mu.Unlock()
	if parked > mostParked {
		t.Errorf("%d goroutines are parked, at most %d may be", parked, mostParked)
	}
	p.close()
	running.Add(1)
	p.begin(-1)
	running.Wait()
	if done[-1] != 1 {
		t.Error("work after close was not done")
	}
}
