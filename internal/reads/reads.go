// Package reads keeps what was read for a moment, so that many who ask for it cost as much as one. Those who ask for
// the same at the same moment wait for one read.
package reads

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync/atomic"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/sync/singleflight"
)

// Cache keeps values by their keys. It is safe for concurrent use.
type Cache[V any] struct {
	age, limit time.Duration
	now        func() time.Time
	forgotten  atomic.Int64 // how often
	flights    singleflight.Group
	kept       *lru.Cache[string, kept[V]]
}

type kept[V any] struct {
	until time.Time
	value V
}

// New returns a cache of so many values, which are kept for an age; 0: not at all. A read may take the limit. The clock
// is monotonic.
func New[V any](most int, age, limit time.Duration, now func() time.Time) *Cache[V] {
	entries, _ := lru.New[string, kept[V]](most) // it fails without a size alone
	return &Cache[V]{age: age, limit: limit, now: now, kept: entries}
}

// Get returns what is kept under the key, or reads it; an error is not kept. A read belongs to no single caller: who
// leaves does not end it, and a panic of it is an error, as singleflight would end the process with one.
func (c *Cache[V]) Get(ctx context.Context, key string, read func(context.Context) (V, error)) (V, error) {
	key = fmt.Sprint(c.forgotten.Load(), key)
	flight := c.flights.DoChan(key, func() (value any, err error) {
		if known, found := c.kept.Get(key); found && c.now().Before(known.until) {
			return known.value, nil
		}
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic in a read: %v\n%s", p, debug.Stack())
			}
		}()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.limit)
		defer cancel()
		got, err := read(ctx)
		if err == nil && c.age > 0 {
			c.kept.Add(key, kept[V]{c.now().Add(c.age), got})
		}
		return got, err
	})
	select {
	case done := <-flight:
		value, _ := done.Val.(V)
		return value, done.Err
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	}
}

// Forget makes the next Get read what an action has changed.
func (c *Cache[V]) Forget() { c.forgotten.Add(1) }
