package webhooks

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/dispatch"
)

// strayAge is how old an attempt in this worker's name is that this process does not know of before it is given back:
// the message that handed it over was lost.
const strayAge = 2 * time.Second

// searchEvery is how often one worker makes sure that no receiver's row says less than its deliveries: while an upgrade
// rolls, workers of the version before make deliveries wait and do not say so.
const searchEvery = 5 * time.Minute

// search makes overlooked deliveries due.
func (d *Dispatcher) search(ctx context.Context) error {
	found, err := d.store.overlooked(ctx)
	if err != nil || len(found) == 0 {
		return err
	}
	return d.deps.DB.InTx(ctx, "find overlooked deliveries", func(ctx context.Context) error { return d.store.markDue(ctx, found, d.deps.Now()) })
}

// ownership is which suppliers this worker serves. It alone looks for their due deliveries, limits them and probes the
// failing ones. What it says is checked again by the database where an attempt is begun.
type ownership struct {
	mu     sync.Mutex
	owned  []int                  // shards, ascending
	owners [dispatch.Shards]int64 // as last read; NoOwner where the owner is dead
	live   int                    // workers
	first  bool                   // this one is the oldest of those that do not stop
	former map[int64]struct{}     // from whom shards came, until these have nothing in flight to them
}

func (o *ownership) shards() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owned
}

// owns reports whether this worker serves the supplier.
func (o *ownership) owns(supplierID string) bool {
	_, found := slices.BinarySearch(o.shards(), dispatch.ShardOf(supplierID))
	return found
}

// others returns how many other workers there are.
func (o *ownership) others() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return max(o.live-1, 0)
}

// Behind returns how many workers come behind the first, and 0 to the first itself, as far as this one knows.
func (d *Dispatcher) Behind() int {
	o := &d.ownership
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.first {
		return 0
	}
	return max(o.live-1, 0)
}

// owner returns the worker that serves the supplier, as far as is known here.
func (o *ownership) owner(supplierID string) int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owners[dispatch.ShardOf(supplierID)]
}

// plan is what a worker does about its shards: what it goes on with, what it gives to whom and what it takes.
type plan struct {
	keep, take []int
	give       map[int64][]int
}

// plan compares who owns what with what is to be.
func (m members) plan(worker int64) plan {
	p := plan{give: map[int64][]int{}}
	for shard, to := range dispatch.Assign(m.owners, m.stay) {
		switch owner := m.owners[shard]; {
		case owner == worker && (to == worker || to == dispatch.NoOwner):
			p.keep = append(p.keep, shard)
		case owner == worker:
			p.give[to] = append(p.give[to], shard)
		case to == worker && !slices.Contains(m.live, owner):
			p.take = append(p.take, shard)
		}
	}
	return p
}

// rebalance brings this worker's shards to what they are to be. Shards that it gives away are left alone before another
// worker can own them; those that it gets are served from the next round on, which counts what their former owners have
// in flight.
func (d *Dispatcher) rebalance(ctx context.Context, worker int64, m members) error {
	p := m.plan(worker)
	if err := d.own(ctx, p.keep, m); err != nil {
		return err
	}
	for to, shards := range p.give {
		if err := d.store.giveShards(ctx, shards, worker, to); err != nil {
			return err
		}
	}
	if len(p.take) == 0 {
		return nil
	}
	if err := d.store.takeShards(ctx, p.take, worker, d.deps.Now()); err != nil {
		return err
	}
	m, err := d.ask(ctx, worker)
	if err != nil {
		return err
	}
	return d.own(ctx, m.plan(worker).keep, m)
}

// own takes the shards for this worker's and forgets all others.
func (d *Dispatcher) own(ctx context.Context, shards []int, m members) error {
	o := &d.ownership
	o.mu.Lock()
	changed := !slices.Equal(o.owned, shards)
	for _, shard := range shards {
		if _, had := slices.BinarySearch(o.owned, shard); !had && slices.Contains(m.live, o.owners[shard]) {
			o.former[o.owners[shard]] = struct{}{}
		}
	}
	former := make([]int64, 0, len(o.former))
	for worker := range o.former {
		former = append(former, worker)
	}
	o.mu.Unlock()
	var elsewhere map[string]int
	if len(former) > 0 {
		var err error
		if elsewhere, err = d.store.heldBy(ctx, former); err != nil {
			return err
		}
	}
	o.mu.Lock()
	o.owned = shards
	for shard, owner := range m.owners {
		if o.owners[shard] = owner; !slices.Contains(m.live, owner) {
			o.owners[shard] = dispatch.NoOwner // what is handed to a dead worker waits until it is missed
		}
	}
	o.live = len(m.live)
	o.first = len(m.stay) > 0 && slices.Min(m.stay) == d.lease.worker()
	if len(elsewhere) == 0 {
		clear(o.former)
	}
	o.mu.Unlock()
	if changed || len(former) > 0 {
		d.scheduler.Own(o.owns, elsewhere)
		d.Wake()
	}
	return nil
}

// returnStrays releases attempts that are begun in this worker's name and that it knows nothing of.
func (d *Dispatcher) returnStrays(ctx context.Context, worker int64) error {
	d.heldMu.Lock()
	held := maps.Clone(d.held) // before the database is asked: what ends meanwhile is no stray
	d.heldMu.Unlock()
	ids, err := d.store.begunBefore(ctx, worker, d.deps.Now().Add(-strayAge))
	if err != nil {
		return err
	}
	var strays []job
	for _, id := range ids {
		if _, known := held[id]; !known {
			strays = append(strays, job{id: id, worker: worker})
		}
	}
	if len(strays) > 0 {
		d.deps.Log.WarnContext(ctx, "attempts that were begun for this worker never reached it: they are due again",
			"attempts", len(strays))
		d.putBack(strays)
	}
	return nil
}
