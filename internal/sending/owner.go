package sending

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// owner is this worker among the others: its lease, the shards that it owns, the attempts that it has begun, and who is
// to be woken. lease.go renews the lease and takes over from the dead, ownership.go moves shards, wakeup.go wakes.
type owner struct {
	deps      Deps
	workers   *workerStore
	attempts  *deliveries.AttemptStore
	scheduler *dispatch.Scheduler[job]
	wake      chan struct{}
	beatNow   chan struct{} // makes keepLease renew the lease at once
	lease     *lease
	ownership ownership
	leaving   atomic.Bool // it takes no shards any more
	wakeUps   wakeUps
	seenMu    sync.Mutex
	seen      sightings
	reclaimed time.Time // of takeOverAndRebalance alone

	heldMu sync.Mutex
	held   map[string]int // attempts that this worker has begun and not ended, by delivery
}

func newOwner(deps Deps) *owner {
	return &owner{
		deps: deps, workers: &workerStore{deliveries.NewTables(deps.DB)}, attempts: deliveries.NewAttemptStore(deps.DB),
		wake: make(chan struct{}, 1), beatNow: make(chan struct{}, 1), lease: newLease(), seen: sightings{},
		ownership: ownership{former: map[int64]struct{}{}}, held: map[string]int{},
	}
}

// Wake makes Run look for due deliveries now. It never blocks. One that comes during a look is kept for the next one.
func (d *owner) Wake() {
	select {
	case d.wake <- struct{}{}:
	default:
	}
}

// Leave makes this worker give its shards away, at once if it can. It goes on with its attempts.
func (d *owner) Leave() {
	d.leaving.Store(true)
	select {
	case d.beatNow <- struct{}{}:
	default:
	}
}

// hold notes that this worker begins an attempt, before that is committed. It must be before: reconcile reads first the
// database and then held, and would take an attempt for forgotten that is in the first and not yet in the second.
func (d *owner) hold(id string) {
	d.heldMu.Lock()
	defer d.heldMu.Unlock()
	d.held[id]++ // the attempt before may not be released yet
}

// release notes that an attempt is no more in this worker's hands: its result is written, or it was never made. If the
// database still has it then, reconcile finds it.
func (d *owner) release(id string) {
	d.heldMu.Lock()
	defer d.heldMu.Unlock()
	if d.held[id]--; d.held[id] <= 0 {
		delete(d.held, id)
	}
}
