// Package groupcommit lets concurrent callers share one transaction. While one batch commits, the next one collects;
// callers in no hurry may linger. The package knows no feature and no database.
package groupcommit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// A commit waits for a disk, which takes milliseconds; a batch waits once for all its callers. While one batch is
// flushed the next one collects, so batches grow with the load. A caller that comes alone waits for no other. When a
// caller hangs up, its item stays in the batch.
//
// One item must not hold up the others, even if it is refused or a lost process has locked its row. Such an item is
// flushed alone while the batches go on. If its row is locked it is tried a few times, because the lock ends with its
// holder. Few are flushed alone at a time. When many of these have found locked rows, such as in a locked table, those
// that still wait end as unavailable.

// ErrClosed is why a Batcher's calls are errs.Unavailable after Close.
var ErrClosed = errors.New("group commit is closed")

const (
	singles  = 4                      // items that may be flushed alone at the same time
	tries    = 3                      // of one item while its row is locked; each waits as long as the database lets it
	tryNext  = 100 * time.Millisecond // pause before another try
	patience = 4 * singles            // flushes that may find locked rows while an item waits to be flushed alone
)

// Flush handles one batch and returns one result per item, in order. Any error but Undecided fails the whole batch.
type Flush[I, O any] func(ctx context.Context, items []I) ([]O, error)

// Undecided lists the places of items whose rows another transaction holds. A Flush that returns it has results for all
// others.
type Undecided []int

// Error returns a text with their number.
func (u Undecided) Error() string { return fmt.Sprintf("the rows of %d items are locked", len(u)) }

// Batcher shares the calls of a Flush among concurrent callers.
type Batcher[I, O any] struct {
	flush     Flush[I, O]
	max       int
	linger    time.Duration
	calls     chan call[I, O]
	open      chan struct{} // full while a flusher collects: two open batches would split what fits into one
	stop      chan struct{}
	stopOnce  sync.Once
	producers sync.RWMutex
	flushers  sync.WaitGroup
	singles   chan struct{} // has an element for each item that is being flushed alone
	locked    atomic.Int64  // flushes of one item that found its row locked
	alone     sync.WaitGroup
}

// call is an item that waits for its batch. done gets its result.
type call[I, O any] struct {
	ctx  context.Context
	item I
	done func(O, error)
}

// result is what a caller of Do or Hold waits for.
type result[O any] struct {
	value O
	err   error
}

// New starts the given number of flushers. Each takes at most max items into a batch. A batch that is not full waits
// for more until linger is over; 0 does not wait. If a batch of several fails while the database is available, each of
// its items is flushed again alone, so that one bad item fails alone. The next batches go on meanwhile.
func New[I, O any](flushers, max int, linger time.Duration, flush Flush[I, O]) *Batcher[I, O] {
	b := &Batcher[I, O]{flush: flush, max: max, linger: linger, calls: make(chan call[I, O], max),
		open: make(chan struct{}, 1), stop: make(chan struct{}), singles: make(chan struct{}, singles)}
	for range flushers {
		b.flushers.Go(b.run)
	}
	return b
}

// Do hands item to the open batch and waits for its result. If ctx ends first, the item may still be flushed.
func (b *Batcher[I, O]) Do(ctx context.Context, item I) (O, error) {
	return b.wait(ctx, ctx.Done(), item)
}

// Hold is Do for a caller that counts the memory of item: it returns when no batch holds item any longer, even if ctx
// ends before. Of an item that waits for its place in a batch a ctx that ends is an error at once.
func (b *Batcher[I, O]) Hold(ctx context.Context, item I) (O, error) { return b.wait(ctx, nil, item) }

func (b *Batcher[I, O]) wait(ctx context.Context, end <-chan struct{}, item I) (O, error) {
	var zero O
	done := make(chan result[O], 1)
	err := b.Enqueue(ctx, item, func(value O, err error) { done <- result[O]{value, err} })
	if err != nil {
		return zero, err
	}
	select {
	case r := <-done:
		return r.value, r.err
	case <-end:
		return zero, ctx.Err()
	}
}

// Enqueue adds item to the open batch and does not wait for its result. It calls done with the result exactly once, or
// never if Enqueue returns an error. done must not block.
func (b *Batcher[I, O]) Enqueue(ctx context.Context, item I, done func(O, error)) error {
	b.producers.RLock()
	defer b.producers.RUnlock()
	select {
	case <-b.stop:
		return errs.NewUnavailable("The service is stopping.", time.Second, ErrClosed)
	default:
	}
	select {
	case b.calls <- call[I, O]{ctx: context.WithoutCancel(ctx), item: item, done: done}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Close refuses new items and returns when all items handed over before are flushed.
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

// deliver flushes a batch and hands out its results.
func (b *Batcher[I, O]) deliver(batch []call[I, O]) {
	items := lists.Of(batch, func(c call[I, O]) I { return c.item })
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

// deliverAlone flushes one item, and tries again while another transaction is in the way.
func (b *Batcher[I, O]) deliverAlone(c call[I, O]) {
	var result O
	err := error(errs.NewUnavailable("The service is busy. Try again.", time.Second, nil))
	last := b.locked.Load() + patience
	for try := range tries {
		if try > 0 {
			time.Sleep(tryNext)
		}
		b.singles <- struct{}{}
		if b.locked.Load() > last {
			<-b.singles
			break
		}
		var values []O
		values, err = b.flush(c.ctx, []I{c.item})
		if err == nil {
			result = values[0]
		}
		passing := errs.IsPassing(err)
		if passing {
			b.locked.Add(1)
		}
		<-b.singles
		if !passing {
			break
		}
	}
	c.done(result, err)
}
