package console

import (
	"context"
	"sync"
	"time"
)

const (
	fresh       = 2 * time.Second
	mostCached  = 256
	readTimeout = 10 * time.Second
)

// cache keeps what pages show for a moment, so that many viewers cost as much as one. Viewers who ask for the same at
// the same moment wait for one read.
type cache struct {
	now     func() time.Time // monotonic
	mu      sync.Mutex
	entries map[string]*entry
}

type entry struct {
	done  chan struct{}
	until time.Time
	data  any
	err   error
}

func newCache(now func() time.Time) *cache { return &cache{now: now, entries: map[string]*entry{}} }

// read returns what is cached under the key, or reads it; an error is not kept.
func (c *cache) read(ctx context.Context, key string, read func(context.Context) (any, error)) (any, error) {
	c.mu.Lock()
	e, found := c.entries[key]
	if !found || e.ended() && c.now().After(e.until) {
		if len(c.entries) >= mostCached {
			clear(c.entries)
		}
		e = &entry{done: make(chan struct{})}
		c.entries[key] = e
		go c.fill(context.WithoutCancel(ctx), e, key, read)
	}
	c.mu.Unlock()
	select {
	case <-e.done:
		return e.data, e.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (e *entry) ended() bool {
	select {
	case <-e.done:
		return true
	default:
		return false
	}
}

func (c *cache) fill(ctx context.Context, e *entry, key string, read func(context.Context) (any, error)) {
	ctx, cancel := context.WithTimeout(ctx, readTimeout)
	defer cancel()
	data, err := read(ctx)
	c.mu.Lock()
	defer c.mu.Unlock()
	e.data, e.err, e.until = data, err, c.now().Add(fresh)
	if err != nil && c.entries[key] == e {
		delete(c.entries, key)
	}
	close(e.done)
}

// forget makes the next reader see what an action changed.
func (c *cache) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	clear(c.entries)
}
