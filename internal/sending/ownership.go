package sending

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/round"
)

// reclaimEvery is how often a worker looks for attempts that are not being made.
const reclaimEvery = 2 * time.Second

// Every worker computes who is to own which shard from the same rows (dispatch.Assign) and acts on its own part only:
// it gives shards away and takes those whose owner is dead. A shard is given in one UPDATE that names its owner, so it
// never has two; one whose giver or taker dies in between has a dead owner and is taken at the next look. That two
// workers believe to own one for a moment does no harm: the claim asks the database again.

// ownership is which suppliers this worker serves. It alone looks for their due deliveries, limits them and probes the
// failing ones. The database checks it again where an attempt is begun.
type ownership struct {
	mu     sync.Mutex
	owned  []int               // shards, ascending
	owners [round.Shards]int64 // as last read; NoOwner where the owner is dead
	former map[int64]struct{}  // from whom shards came, until these have nothing in flight to them
}

// shards returns the shards that this worker looks for. No one changes the list: own replaces it.
func (o *ownership) shards() []int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.owned
}

// owns reports whether this worker serves the supplier.
func (o *ownership) owns(supplierID string) bool {
	_, found := slices.BinarySearch(o.shards(), round.ShardOf(supplierID))
	return found
}

// Shards returns the shards that this worker serves.
func (d *owner) Shards() []int { return d.ownership.shards() }

// plan is what a worker does about its shards: which it keeps, which it gives to whom and which it takes.
type plan struct {
	keep, take []int
	give       map[int64][]int
}

// plan compares who owns what with what is to be. A shard of a living worker is never taken: its owner gives it, so
// that it stops claiming before another begins to.
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
func (d *owner) rebalance(ctx context.Context, worker int64, m members) error {
	p := m.plan(worker)
	if err := d.own(ctx, p.keep, m); err != nil {
		return err
	}
	for to, shards := range p.give {
		if err := d.workers.giveShards(ctx, shards, worker, to); err != nil {
			return err
		}
	}
	if len(p.take) == 0 {
		return nil
	}
	if err := d.workers.takeShards(ctx, p.take, worker); err != nil {
		return err
	}
	m, err := d.ask(ctx, worker)
	if err != nil {
		return err
	}
	return d.own(ctx, m.plan(worker).keep, m)
}

// own takes the shards for this worker's and forgets all others. For receivers that it gets from a living worker it
// asks what that one has in flight to them, at each beat until it is nothing, and the scheduler counts that against
// their limits. It comes before giveShards in rebalance: attempts of a shard that goes away leave the ready queue (d)
// first.
func (d *owner) own(ctx context.Context, shards []int, m members) error {
	o := &d.ownership
	o.mu.Lock()
	changed, orphans := !slices.Equal(o.owned, shards), []int(nil)
	for _, shard := range shards {
		_, had := slices.BinarySearch(o.owned, shard)
		switch {
		case had, o.owners[shard] == m.worker: // it was given away, and the worker that was to take it did not
		case slices.Contains(m.live, o.owners[shard]):
			o.former[o.owners[shard]] = struct{}{}
		default:
			orphans = append(orphans, shard)
		}
	}
	former := slices.Collect(maps.Keys(o.former))
	o.mu.Unlock()
	var elsewhere map[string]int
	if len(former) > 0 {
		var err error
		if elsewhere, err = d.attempts.HeldBy(ctx, former); err != nil {
			return err
		}
		maps.DeleteFunc(elsewhere, func(destination string, _ int) bool {
			_, mine := slices.BinarySearch(shards, round.ShardOf(destination))
			return !mine
		})
	}
	o.mu.Lock()
	o.owned = shards
	for shard, owner := range m.owners {
		if o.owners[shard] = owner; !slices.Contains(m.live, owner) {
			o.owners[shard] = dispatch.NoOwner // a shard handed to a dead worker waits until that is missed
		}
	}
	if len(elsewhere) == 0 {
		clear(o.former)
	}
	o.mu.Unlock()
	if changed || len(former) > 0 {
		d.scheduler.Own(o.owns, elsewhere)
		d.Wake()
	}
	if changed && d.deps.Owned != nil {
		d.deps.Owned(shards, orphans)
	}
	return nil
}

// reconcile compares what the database says that this worker is sending with what it is sending. The rest is of
// transactions whose COMMIT got no answer: it counts as interrupted and is due again. An attempt is held in memory from
// before its COMMIT until its result is written, so the order matters: first the database, then the memory. A delivery
// whose attempt ends, or begins once more, in between has another number or another beginning, which the update names.
func (d *owner) reconcile(ctx context.Context, worker int64) error {
	attempts, err := d.attempts.Begun(ctx, worker)
	if err != nil {
		return err
	}
	d.heldMu.Lock()
	forgotten := slices.DeleteFunc(attempts, func(a deliveries.HeldAttempt) bool { return d.held[a.ID] > 0 })
	d.heldMu.Unlock()
	if len(forgotten) == 0 {
		return nil
	}
	n, err := d.attempts.Interrupt(ctx, worker, forgotten, d.deps.Now())
	if n > 0 {
		d.deps.Log.WarnContext(ctx, "attempts that this worker began and does not make are due again: "+
			"a COMMIT got no answer", "attempts", n)
		d.Wake()
	}
	return err
}
