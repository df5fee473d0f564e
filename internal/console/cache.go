package console

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
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
	actions atomic.Int64     // so far: nothing that was read before one is shown after it
	reads   singleflight.Group
	kept    *lru.Cache[string, kept]
}

type kept struct {
	until time.Time
	data  any
}

func newCache(now func() time.Time) (*cache, error) {
	entries, err := lru.New[string, kept](mostCached)
	return &cache{now: now, kept: entries}, err
}

// read returns what is cached under the key, or reads it; an error is not kept.
func (c *cache) read(ctx context.Context, key string, read func(context.Context) (any, error)) (any, error) {
	key = fmt.Sprint(c.actions.Load(), key)
	done := c.reads.DoChan(key, func() (any, error) {
		if known, found := c.kept.Get(key); found && !c.now().After(known.until) {
			return known.data, nil
		}
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readTimeout)
		defer cancel()
		data, err := read(ctx)
		if err == nil {
			c.kept.Add(key, kept{c.now().Add(fresh), data})
		}
		return data, err
	})
	select {
	case result := <-done:
		return result.Val, result.Err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// forget makes the next reader see what an action changed.
func (c *cache) forget() { c.actions.Add(1) }
