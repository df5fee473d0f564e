package sending

import (
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/sleep"
)

const (
	leaseLife  = 2 * time.Second // so long a worker's attempts are its own after it last said that it lives
	leaseRenew = 700 * time.Millisecond
	// A worker begins nothing later than this after its last renewal. So a call of less than 0.7 s has ended before
	// another worker may take it over and make it again.
	leaseBegin = leaseLife - leaseRenew
)

// A worker lives as long as it renews its lease, every 0.7 s for 2 s. The others judge that by the renewals that they
// read and by their own clocks, never by the database's, which may jump. They take over what a dead worker had begun
// (step f of the states), in a transaction that deletes its lease first: a worker that comes back finds its lease gone,
// drops what it held and registers again. While the database was away no worker could renew anything: none counts as
// dead until a lease's life after it is back.

// lease is this worker's claim to the attempts that it has begun. While it is renewed no other worker touches them; a
// worker that was stopped for longer than leaseLife finds it lost, and then neither sends nor writes what it had begun.
type lease struct {
	mu      sync.Mutex
	id      int64         // of the worker; 0 while it has none
	renewed time.Time     // local and monotonic
	changed chan struct{} // closed at the next renewal or loss
}

func newLease() *lease { return &lease{changed: make(chan struct{})} }

// worker returns the id under which attempts are begun now; 0 for none.
func (l *lease) worker() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.renewed) > leaseBegin {
		return 0
	}
	return l.id
}

// set records a renewal, or with id 0 the loss, that was asked for at the given moment.
func (l *lease) set(id int64, asked time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.id, l.renewed = id, asked
	close(l.changed)
	l.changed = make(chan struct{})
}

// held reports whether the worker may begin the calls of its attempts. When it has not said for too long that it lives,
// that is decided by the next renewal, for which held waits.
func (l *lease) held(ctx context.Context, worker int64) bool {
	for {
		l.mu.Lock()
		id, fresh, changed := l.id, time.Since(l.renewed) <= leaseBegin, l.changed
		l.mu.Unlock()
		if id != worker || fresh {
			return id == worker
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return false
		}
	}
}

// sightings is when each other worker was last seen to renew its lease. A life is judged by renewals and this worker's
// own clock: the database's may jump.
type sightings map[int64]sighting

type sighting struct {
	renewal int64     // what its row said
	at      time.Time // when that was first read; monotonic
}

// dead notes what a worker's row says now, and reports whether it has said the same for longer than a lease lives.
func (s sightings) dead(worker, renewal int64, now time.Time) bool {
	seen, known := s[worker]
	if !known || seen.renewal != renewal {
		s[worker] = sighting{renewal, now}
		return false
	}
	return now.Sub(seen.at) > leaseLife
}

// keepLease gets a lease and renews it until ctx ends. got is closed with the first lease. A beat that fails is
// repeated after the same pause: when the database is away for longer than the lease lives nothing new is begun
// (worker returns 0), and attempts in flight wait in held for the next beat.
//
// The renewals wait for nothing but their own row. Another goroutine acts on the latest of what they have read: that
// changes rows which others may hold.
func (d *owner) keepLease(ctx context.Context, got chan<- struct{}) {
	asking := context.WithoutCancel(ctx) // a renewal that has begun ends
	looks := make(chan look, 1)
	var acting sync.WaitGroup
	acting.Go(func() {
		for l := range looks {
			d.takeOverAndRebalance(asking, l.members, l.judge)
		}
	})
	defer acting.Wait()
	defer close(looks)
	// until then no other worker counts as dead: while the database was unavailable no lease could be renewed
	var late time.Time
	for first := true; ctx.Err() == nil; {
		asked := time.Now()
		if asked.Sub(d.lease.lastRenewal()) > leaseLife {
			late = asked.Add(leaseLife)
		}
		if m, err := d.beat(asking, asked); err != nil {
			d.deps.Log.WarnContext(ctx, "renew the worker's lease failed", "error", err)
		} else {
			if first {
				close(got)
				first = false
			}
			if m.due {
				d.Wake()
			}
			select {
			case <-looks: // the one before, which nothing has acted on yet
			default:
			}
			looks <- look{m, asked.After(late)}
		}
		sleep.Until(ctx, leaseRenew, d.beatNow)
	}
}

// look is what a beat has read, and whether others may be judged dead by it.
type look struct {
	members members
	judge   bool
}

// lastRenewal returns when the renewal was asked for that succeeded last.
func (l *lease) lastRenewal() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewed
}

// beat renews the lease, or gets a new one when there is none or it was taken away, and returns who lives.
func (d *owner) beat(ctx context.Context, asked time.Time) (members, error) {
	ctx, cancel := context.WithTimeout(ctx, leaseLife)
	defer cancel()
	d.lease.mu.Lock()
	id := d.lease.id
	d.lease.mu.Unlock()
	if id != 0 {
		m, err := d.ask(ctx, id)
		if err != nil || m.held {
			if m.held {
				d.lease.set(id, asked)
			}
			return m, err
		}
		d.deps.Log.WarnContext(ctx, "this worker was stopped for too long: its attempts were taken over", "worker", id)
		d.lease.set(0, asked)
	}
	id, err := d.workers.newLease(ctx, d.deps.Now().Add(leaseLife))
	if err != nil {
		return members{}, err
	}
	d.lease.set(id, asked)
	return d.ask(ctx, id)
}

// ask renews the lease of the worker and reads who lives, who owns which shard and whether something is due, all in one
// statement. Workers whose rows are gone are forgotten: their numbers are never used again.
func (d *owner) ask(ctx context.Context, worker int64) (members, error) {
	now := d.deps.Now()
	rows, err := d.workers.beat(ctx, worker, now.Add(leaseLife), d.ownership.shards(), now)
	if err != nil {
		return members{}, err
	}
	d.seenMu.Lock()
	defer d.seenMu.Unlock()
	m, err := newMembers(rows, worker, now, d.seen)
	if err == nil {
		there := append(slices.Clone(m.live), m.dead...) // the rows of all others are gone
		maps.DeleteFunc(d.seen, func(id int64, _ sighting) bool { return !slices.Contains(there, id) })
	}
	return m, err
}

// takeOverAndRebalance takes over what dead workers held, when it may judge them, and brings this worker's shards to
// what they are to be. Neither waits for the other to succeed: the shards of a dead worker are served although some of
// its attempts cannot be taken over yet.
func (d *owner) takeOverAndRebalance(ctx context.Context, m members, judge bool) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var failed []error
	if judge {
		failed = append(failed, d.takeOverAll(ctx, m, m.dead))
	}
	worker := d.lease.worker()
	if worker != m.worker {
		worker = 0 // it lost its lease since
	}
	if worker != 0 {
		if !judge {
			m.live, m.stay = append(m.live, m.dead...), append(m.stay, m.dead...)
		}
		if d.leaving.Load() && slices.Contains(m.stay, worker) {
			failed = append(failed, d.workers.leave(ctx, worker))
			m.stay = slices.DeleteFunc(m.stay, func(id int64) bool { return id == worker })
		}
		failed = append(failed, d.rebalance(ctx, worker, m))
	}
	failed = append(failed, d.reclaimLost(ctx, worker, m, judge))
	if err := errors.Join(failed...); err != nil {
		d.deps.Log.WarnContext(ctx, "look for the other workers failed", "error", err)
	}
}

// reclaimLost finds attempts that are not being made: those that this worker does not know of, and those of workers
// that have no lease any more.
func (d *owner) reclaimLost(ctx context.Context, worker int64, m members, judge bool) error {
	if time.Since(d.reclaimed) < reclaimEvery {
		return nil
	}
	d.reclaimed = time.Now()
	holders, err := d.attempts.Holders(ctx)
	if err == nil && slices.Contains(holders, worker) {
		err = d.reconcile(ctx, worker)
	}
	if err == nil && judge {
		lost := slices.DeleteFunc(holders, func(id int64) bool { return slices.Contains(m.live, id) })
		err = d.takeOverAll(ctx, m, lost)
	}
	return err
}

// takeOverAll makes the deliveries of dead workers due again. Each is a transaction of its own; where one fails the
// next beat goes on. All living workers do this at the same time, and one of them finds something to take over.
func (d *owner) takeOverAll(ctx context.Context, m members, dead []int64) error {
	var failed []error
	for _, worker := range dead {
		renewal, known := m.renewals[worker]
		if !known {
			renewal = noRenewal // its row was gone, or it came after the last look: then it lives
		}
		n, err := d.workers.takeOver(ctx, worker, renewal, d.deps.Now())
		failed = append(failed, err)
		if n > 0 {
			d.deps.Log.WarnContext(ctx, "a worker is dead: its attempts count as interrupted", "worker", worker, "attempts", n)
			d.Wake()
		}
	}
	return errors.Join(failed...)
}

// endLease releases the lease and makes attempts still begun under it due. Where the database is away the lease runs
// out by itself, and another worker does it 2 s later.
func (d *owner) endLease(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	if id := d.lease.worker(); id != 0 {
		if _, err := d.workers.takeOver(ctx, id, anyRenewal, d.deps.Now()); err != nil {
			d.deps.Log.WarnContext(ctx, "give the worker's lease up failed", "error", err)
		}
	}
	d.lease.set(0, time.Now())
}
