// Package groupcommit lets concurrent callers share one transaction. Batching is natural: while one
// batch commits, the next one collects; callers that are in no hurry may linger. It knows no feature and no database.
package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// A commit waits for a disk, which takes milliseconds; a batch waits once for all of its callers. While one batch is
// flushed the next one collects, so batches grow by themselves as load does, and a caller that comes alone waits for
// none. The batch belongs to no caller: one that hangs up leaves its item in it.
//
// One item must not hold up the others, neither by being refused nor by waiting for a row that a lost process has
// locked. Such items are flushed alone while the batches go on: each a few times, as the lock ends with its holder.

// ErrClosed is what Do answers after Close.
var ErrClosed = errors.New("group commit is closed")

const (
	singles = 4                      // items that are flushed alone at once
	tries   = 3                      // more, of one whose row is held: each waits as long as the database lets it
	tryNext = 100 * time.Millisecond // after one of them
)

// Flush handles one batch and returns one result per item, in order. An error fails the whole batch, unless it is
// Undecided.
type Flush[I, O any] func(ctx context.Context, items []I) ([]O, error)

// Undecided is the error of a Flush that has results for all items but those at these places, whose rows another
// transaction holds.
type Undecided []int

// Error returns how many there are.
func (u Undecided) Error() string { return fmt.Sprintf("%d items of the batch were not free", len(u)) }

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
	singles   chan struct{} // holds a note for each item that is flushed alone
	alone     sync.WaitGroup
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
// of its items is flushed again by itself, while the next batches go on, so that one bad item fails alone.
func New[I, O any](flushers, max int, linger time.Duration, flush Flush[I, O]) *Batcher[I, O] {
	b := &Batcher[I, O]{flush: flush, max: max, linger: linger, calls: make(chan call[I, O], max),
		open: make(chan struct{}, 1), stop: make(chan struct{}), singles: make(chan struct{}, singles)}
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
	b.producers.RLock()
	defer b.producers.RUnlock()
	select {
	case <-b.stop:
		return ErrClosed
	default:
	}
	select {
	case b.calls <- call[I, O]{ctx: context.WithoutCancel(ctx), item: item, done: done}:
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
	b.alone.Wait()
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
		var next call[I, O]
		select {
		case next, open = <-b.calls:
		default:
			if b.linger == 0 {
				return batch
			}
			if late == nil {
				late = time.After(b.linger)
			}
			select {
			case next, open = <-b.calls:
			case <-late:
				return batch
			}
		}
		if !open {
			return batch
		}
		batch = append(batch, next)
	}
	return batch
}

// deliver flushes a batch and hands its results out.
func (b *Batcher[I, O]) deliver(batch []call[I, O]) {
	items := make([]I, len(batch))
	for i, c := range batch {
		items[i] = c.item
	}
	values, err := b.flush(batch[0].ctx, items)
	undecided, some := errors.AsType[Undecided](err)
	if some {
		err = nil
	}
	for i, c := range batch {
		switch {
		case slices.Contains(undecided, i), errs.IsPassing(err), err != nil && len(batch) > 1 && !errs.IsUnavailable(err):
			b.alone.Go(func() { b.deliverAlone(c) })
		case err != nil:
			var none O
			c.done(none, err)
		default:
			c.done(values[i], nil)
		}
	}
}

// deliverAlone flushes one item, and again while another transaction is in its way.
func (b *Batcher[I, O]) deliverAlone(c call[I, O]) {
	var result O
	var err error
	for try := range tries {
		if try > 0 {
			time.Sleep(tryNext)
		}
		b.singles <- struct{}{}
		var values []O
		values, err = b.flush(c.ctx, []I{c.item})
		<-b.singles
		if err == nil {
			result = values[0]
		}
		if !errs.IsPassing(err) {
			break
		}
	}
	c.done(result, err)
}
