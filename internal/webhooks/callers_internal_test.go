package webhooks

import (
	"strconv"
	"sync"
	"testing"
)

func TestCallers_send_each_attempt_once_and_are_used_again(t *testing.T) {
	t.Parallel()
	const rounds, atOnce = 20, 2 * callersKept
	var mu sync.Mutex
	sent := map[string]int{}
	var running sync.WaitGroup
	c := &callers{attempt: func(j job) {
		defer running.Done()
		mu.Lock()
		defer mu.Unlock()
		sent[j.id]++
	}}
	for round := range rounds {
		for i := range atOnce {
			running.Add(1)
			c.begin(job{id: strconv.Itoa(round*atOnce + i)})
		}
		running.Wait()
	}
	for i := range rounds * atOnce {
		if n := sent[strconv.Itoa(i)]; n != 1 {
			t.Errorf("attempt %d was sent %d times", i, n)
		}
	}
	c.mu.Lock()
	free := len(c.free)
	c.mu.Unlock()
	if free > callersKept {
		t.Errorf("%d callers wait, at most %d are to", free, callersKept)
	}
	c.close()
	running.Add(1)
	c.begin(job{id: "last"})
	running.Wait()
	if sent["last"] != 1 {
		t.Error("an attempt after close was not sent")
	}
}
