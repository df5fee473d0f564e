// Package groupcommit lets concurrent callers share one transaction. Batching is natural: while one
// batch commits, the next one collects; callers that are in no hurry may linger. It knows no feature and no database.
package groupcommit

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// A commit waits for a disk, which takes milliseconds; a batch waits once for all of its callers. While one batch is
// flushed the next one collects, so batches grow by themselves as load does, and a caller that comes alone waits for
// none. The batch belongs to no caller: one that hangs up leaves its item in it.

// ErrClosed is what Do answers after Close.
var ErrClosed = errors.New("group commit is closed")

// Flush handles one batch and returns one result per item, in order. An error fails the whole batch.
type Flush[I, O any] func(ctx context.Context, items []I) ([]O, error)

// Batcher shares the calls of a Flush among concurrent callers of Do.
type Batcher[I, O any] struct {
	flush     Flush[I, O]
	max       int
	linger    time.Duration
	calls     chan call[I, O]
	open      chan struct{} // holds a note while a flusher collects: two open batches would share what one can hold
	stop      chan struct{}
	stopOnce  sync.Once
	producers sync.RWMutex
	flushers  sync.WaitGroup
}

// call is an item that waits for its batch, and where its result goes.
type call[I, O any] struct {
	ctx  context.Context
	item I
	done func(O, error)
}

// result is what a caller of Do waits for.
type result[O any] struct {
	value O
	err   error
}

// New starts the given number of flushers, each taking at most max items a batch and waiting for more of them until
// the first is as old as linger; 0 does not wait. When a batch of several fails and the database is available, each
// of its items is flushed again by itself, so that one bad item fails alone.
func New[I, O any](flushers, max int, linger time.Duration, flush Flush[I, O]) *Batcher[I, O] {
	b := &Batcher[I, O]{flush: flush, max: max, linger: linger, calls: make(chan call[I, O], max),
		open: make(chan struct{}, 1), stop: make(chan struct{})}
	for range flushers {
		b.flushers.Go(b.run)
	}
	return b
}

// Do hands item to the open batch and waits for its result. When ctx ends first the item may still be flushed.
func (b *Batcher[I, O]) Do(ctx context.Context, item I) (O, error) {
	var zero O
	done := make(chan result[O], 1)
	err := b.Enqueue(ctx, item, func(value O, err error) { done <- result[O]{value, err} })
	if err != nil {
		return zero, err
	}
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return zero, ctx.Err()
	}
}

// Enqueue adds item to the open batch and does not wait for its result: done, which must not block, is called with it
// exactly once. After an error it is not called.
func (b *Batcher[I, O]) Enqueue(ctx context.Context, item I, done func(O, error)) error {
	return b.add(ctx, call[I, O]{ctx: context.WithoutCancel(ctx), item: item, done: done})
}

func (b *Batcher[I, O]) add(ctx context.Context, c call[I, O]) error {
	b.producers.RLock()
	defer b.producers.RUnlock()
	select {
	case <-b.stop:
		return ErrClosed
	default:
	}
	select {
	case b.calls <- c:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close refuses new items, flushes those already handed over and waits for that.
func (b *Batcher[I, O]) Close() {
	b.stopOnce.Do(func() {
		close(b.stop)
		b.producers.Lock()
		close(b.calls)
		b.producers.Unlock()
	})
	b.flushers.Wait()
}

func (b *Batcher[I, O]) run() {
	for batch := b.collect(); len(batch) > 0; batch = b.collect() {
		b.deliver(batch)
	}
}

// collect waits for the next batch; it is empty after Close.
func (b *Batcher[I, O]) collect() []call[I, O] {
	b.open <- struct{}{}
	defer func() { <-b.open }()
	first, open := <-b.calls
	if !open {
		return nil
	}
	batch := append(make([]call[I, O], 0, min(len(b.calls)+1, b.max)), first)
	var late <-chan time.Time
	for len(batch) < b.max {
		select {
		case next, open := <-b.calls:
			if !open {
				return batch
			}
			batch = append(batch, next)
			continue
		default:
		}
		if b.linger == 0 {
			return batch
		}
		if late == nil {
			late = time.After(b.linger)
		}
		select {
		case next, open := <-b.calls:
			if !open {
				return batch
			}
			batch = append(batch, next)
		case <-late:
			return batch
		}
	}
	return batch
}

func (b *Batcher[I, O]) deliver(batch []call[I, O]) {
	items := make([]I, len(batch))
	for i, c := range batch {
		items[i] = c.item
	}
	values, err := b.flush(batch[0].ctx, items)
	if err != nil && len(batch) > 1 && !errs.IsUnavailable(err) {
		for _, c := range batch {
			b.deliver([]call[I, O]{c})
		}
		return
	}
	for i, c := range batch {
		var value O
		if err == nil {
			value = values[i]
		}
		c.done(value, err)
	}
}
