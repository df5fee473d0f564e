package sending

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// owner is this worker among the others: its lease, the shards that it owns, the attempts that it has begun, and who is
// to be woken. lease.go renews the lease and takes over from the dead, ownership.go moves shards, wakeup.go wakes.
type owner struct {
	deps      Deps
	workers   *workerStore
	attempts  *deliveries.AttemptStore
	scheduler *dispatch.Scheduler[job]
	wake      chan struct{} // holds a note for Run: look now
	beatNow   chan struct{} // holds a note for keepLease: renew at once
	lease     *lease        // written by keepLease, asked by every attempt; it has a lock
	ownership ownership     // written by takeOverAndRebalance, asked by Run and Add; it has a lock
	leaving   atomic.Bool   // it takes no shards any more; Leave sets it
	wakeUps   wakeUps       // written by the queue's reader and this worker, emptied by Run; it has a lock
	reclaimed time.Time     // used by takeOverAndRebalance alone

	seenMu sync.Mutex
	seen   sightings // under seenMu: keepLease and takeOverAndRebalance both ask who lives

	heldMu sync.Mutex
	held   map[string]int // under heldMu: attempts that this worker has begun and not ended, by delivery
}

func newOwner(deps Deps) *owner {
	return &owner{
		deps: deps, workers: &workerStore{deliveries.NewTables(deps.DB)}, attempts: deliveries.NewAttemptStore(deps.DB),
		wake: make(chan struct{}, 1), beatNow: make(chan struct{}, 1), lease: newLease(), seen: sightings{},
		ownership: ownership{former: map[int64]struct{}{}}, held: map[string]int{},
	}
}

// Wake makes Run look for due deliveries now. It never blocks. One that comes during a look is kept for the next one.
func (d *owner) Wake() { sleep.Wake(d.wake) }

// Leave makes this worker give its shards away, at once if it can. It goes on with its attempts.
func (d *owner) Leave() {
	d.leaving.Store(true)
	sleep.Wake(d.beatNow)
}

// hold notes that this worker begins an attempt, before that is committed. It must be before: reconcile reads first the
// database and then held, and would take an attempt for forgotten that is in the first and not yet in the second.
func (d *owner) hold(id string) {
	d.heldMu.Lock()
	defer d.heldMu.Unlock()
	d.held[id]++ // the attempt before may not be released yet
}

// release notes that this worker no longer holds the attempt: its result is written, or it was never made. If the
// database still has it then, reconcile finds it.
func (d *owner) release(id string) {
	d.heldMu.Lock()
	defer d.heldMu.Unlock()
	if d.held[id]--; d.held[id] <= 0 {
		delete(d.held, id)
	}
}
