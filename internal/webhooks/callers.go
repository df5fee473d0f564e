package webhooks

import "sync"

const callersKept = 256 // that wait for the next attempt

// callers are goroutines that send one attempt after the other: a new one for each would grow its stack each time.
type callers struct {
	attempt func(job)

	mu     sync.Mutex
	free   []chan job // the last that became free is the first to be used again
	closed bool
}

// begin sends one begun attempt in the background.
func (c *callers) begin(j job) {
	c.mu.Lock()
	defer c.mu.Unlock()
	last := len(c.free) - 1
	if last < 0 {
		go c.run(j)
		return
	}
	c.free[last] <- j // it has room for one
	c.free = c.free[:last]
}

func (c *callers) run(j job) {
	next := make(chan job, 1)
	for more := true; more; {
		c.attempt(j)
		if !c.wait(next) {
			return
		}
		j, more = <-next
	}
}

// wait offers a caller for the next attempt; false when there are enough, or none is to wait any more.
func (c *callers) wait(next chan job) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.free) >= callersKept {
		return false
	}
	c.free = append(c.free, next)
	return true
}

// close ends those that wait; attempts under way end their callers.
func (c *callers) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for _, next := range c.free {
		close(next)
	}
	c.free = nil
}
