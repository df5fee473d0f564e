package figures

import (
	"context"
	"fmt"
	"time"
)

// The gauges that all processes share are counted by one of them, once a step of ten seconds, each up to 100,000, so
// that counting costs the same however much there is. If the process that counts dies, another one does at the next
// step; figures that are too old are not shown.

// The gauges of shared state, in every process:
//
//  1. Every LookEvery it reads the newest row of table gauges. That row is what it shows.
//  2. When the row is of an earlier step, it takes the lock and counts, in one transaction; a process that does not get
//     the lock goes on: another one is counting. The lock ends with the transaction or with the process, so the next
//     look of any other process replaces one that died.
//  3. A row that is older than outdated is not shown: an old figure would be taken for the present.
//
// A row is thus replaced after a step, a look and the counting, and seen a look later: within 15 s.
const (
	LookEvery = 2 * time.Second // each process calls Counts
	outdated  = 15 * time.Second
)

// Counts are how many there are over all processes; 100,000 means that or more.
type Counts struct {
	At                       time.Time // when they were counted
	Enqueued, FailedRequests int64
	Oldest                   time.Duration // how long the oldest enqueued request had waited; 0: none did
	Pending, Dead, Failed    int64         // deliveries
	OldestPending            time.Duration // how long the oldest pending delivery had waited; 0: none did
	Active, Failing, Paused  int64         // receivers
	Backlog                  int64         // estimations and deliveries that workers could do by now
}

// Counts returns those of this step, which it counts unless a process has done so.
func (r *Recorder) Counts(ctx context.Context) (Counts, error) {
	now := r.now()
	newest, err := r.store.newest(ctx)
	if err == nil && stepOf(newest.At) != stepOf(now) {
		if err = r.countStep(ctx, now); err == nil {
			newest, err = r.store.newest(ctx)
		}
	}
	if err == nil && newest.At.Before(now.Add(-outdated)) {
		err = fmt.Errorf("nothing was counted within %s", outdated)
	}
	if err != nil {
		newest = Counts{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts = newest
	return newest, err
}

// countStep is step 2.
func (r *Recorder) countStep(ctx context.Context, now time.Time) error {
	return r.store.db.InTx(ctx, "count gauges", func(ctx context.Context) error {
		held, err := r.store.db.TryLock(ctx, "gauges")
		if err != nil || !held {
			return err
		}
		newest, err := r.store.newest(ctx) // it may have been counted since
		if err != nil || stepOf(newest.At) == stepOf(now) {
			return err
		}
		counts, err := r.store.count(ctx, now)
		if err != nil {
			return err
		}
		return r.store.keep(ctx, counts)
	})
}

// Count counts for the caller alone, where no process may be running.
func (r *Recorder) Count(ctx context.Context) (Counts, error) { return r.store.count(ctx, r.now()) }

// Newest returns the counts that this process read last; zeros when these are not known.
func (r *Recorder) Newest() Counts {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.counts
}
