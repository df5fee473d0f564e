package sending

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/deliveries"
	"github.com/supplyhub/supplyhub/internal/dispatch"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/round"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

const lookUpMost = 1024 // receivers that a round looks up

// This is step c of the states (package deliveries): due deliveries are found, get slots, and are begun in the database
// before they are sent. Three parties take part: the database says what is due, the scheduler (package dispatch) how
// many calls may be made, and the claim, which alone changes anything, locks the receivers first and so sees a pause or
// another owner. A failure between two of these leaves deliveries waiting, and the next round of the loop finds them
// again.

// agenda is what the last look at the database found due, until the next one. It is a memory of hints: a receiver that
// is on it and has nothing due any more costs a claim that finds nothing, and one that is missing is on it after the
// next look.
type agenda struct {
	due    []deliveries.DueRow
	held   []string // receivers of the last claim whose rows were not free, or that are not to be sent to any more
	looked time.Time
	every  time.Duration // looking takes at most a hundredth of the time

	mu   sync.Mutex
	soon time.Time // when this worker knows of the next attempt that will be due; zero: of none
}

// expect makes the agenda look again when an attempt of this worker's will be due. A retry of another worker's, after
// its shard has moved, is found by the look of every second or, while nothing is due, of every renewal of the lease.
func (a *agenda) expect(at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.soon.IsZero() || at.Before(a.soon) {
		a.soon = at
	}
}

// pause returns how long there is nothing to look for. A wake-up ends it early; so does the lease's renewal, which
// reads whether something is due.
func (a *agenda) pause(now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	pause := pollIdle
	if len(a.due) > 0 {
		pause = pollEvery
	}
	if len(a.held) > 0 {
		pause = pollHeld
	}
	look := a.every - time.Since(a.looked) // earlier none is made of everything
	if !a.soon.IsZero() {
		if pause = min(pause, a.soon.Sub(now)); pause <= 0 && look <= 0 {
			a.soon = time.Time{}
		}
	}
	if len(a.held) > 0 {
		return max(pause, pollSoonest) // it claims again and need not look
	}
	return max(pause, pollSoonest, look)
}

// claimOnce begins and starts what is due and has slots, and returns how long there is nothing more to do. Permits come
// before the claim, so that nothing is begun that would wait for a slot; those that the claim has no delivery for are
// cancelled. After an error Run looks again in a second.
func (d *Dispatcher) claimOnce(ctx context.Context) (pause time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	d.agenda.held = nil
	if err := d.readDue(ctx); err != nil {
		return 0, err
	}
	wanted, err := d.wanted(ctx)
	if err != nil {
		return 0, err
	}
	permits := d.scheduler.Claim(wanted)
	if len(permits) == 0 {
		return d.pause(), nil
	}
	wants := make(map[string]int, len(permits))
	for destination, list := range permits {
		wants[destination] = len(list)
	}
	begun := 0
	err = d.claim(ctx, wants, func(jobs []job) {
		begun += len(jobs)
		for _, j := range jobs {
			list := permits[j.Destination]
			permits[j.Destination] = list[:len(list)-1]
			list[len(list)-1].Send(j)
		}
	})
	// it has no more
	d.agenda.due = slices.DeleteFunc(d.agenda.due, func(r deliveries.DueRow) bool {
		return len(permits[r.Destination]) > 0 && !slices.Contains(d.agenda.held, r.Destination)
	})
	for _, list := range permits {
		for _, p := range list {
			p.Cancel()
		}
	}
	// slots come back one by one: the next ones are claimed together, where something waits for them
	if begun > 0 && begun < d.deps.Concurrency/8 && len(d.agenda.due) > 0 {
		sleep.For(ctx, pollSoonest)
	}
	if err != nil || begun > 0 {
		return d.scheduler.Again(), err
	}
	return d.pause(), nil // another worker has them, or they were dead
}

// pause returns how long there is nothing to claim: until the next look, or until the scheduler's pace has room for
// more.
func (d *Dispatcher) pause() time.Duration {
	pause := d.agenda.pause(d.deps.Now())
	if again := d.scheduler.Again(); again > 0 {
		pause = min(pause, again)
	}
	return pause
}

// readDue reads what is due: all of it, unless that was done a moment ago, or that of the shards that this worker was
// woken for. Nothing is locked or begun by it. The own endpoint's work is read by every worker; those that have no slot
// for it leave it to the others.
func (d *Dispatcher) readDue(ctx context.Context) error {
	a, start, woken := &d.agenda, time.Now(), d.wakeUps.shards()
	shards := d.ownership.shards()
	all := start.Sub(a.looked) >= a.every
	if !all {
		shards = slices.DeleteFunc(woken, func(shard int) bool { return !slices.Contains(shards, shard) })
		if len(shards) == 0 {
			return nil
		}
	}
	now := d.deps.Now()
	found, err := d.due.Due(ctx, shards, now)
	if err != nil {
		return err
	}
	if err := d.giveBackPaused(ctx); err != nil {
		return err
	}
	oldest := now
	for _, r := range found {
		if r.At.Before(oldest) {
			oldest = r.At
		}
		if r.At.After(now) {
			a.expect(r.At)
		}
	}
	found = slices.DeleteFunc(found, func(r deliveries.DueRow) bool { return r.At.After(now) })
	if !all {
		a.due = append(slices.DeleteFunc(a.due, func(r deliveries.DueRow) bool {
			return r.Destination == deliveries.OwnEndpoint || slices.Contains(shards, round.ShardOf(r.Destination))
		}), found...)
		return nil
	}
	a.due, a.looked = found, time.Now()
	a.every = min(max(100*a.looked.Sub(start), pollSoonest), pollEvery)
	d.metrics.oldest.Set(now.Sub(oldest).Seconds())
	return nil
}

// giveBackPaused takes the begun attempts of receivers that were paused meanwhile out of the ready queue: their
// insertion (b) saw no pause. They are put back (d) and wait. A pause wakes the owner, so this comes within
// milliseconds of it.
func (d *Dispatcher) giveBackPaused(ctx context.Context) error {
	queued := slices.DeleteFunc(d.scheduler.Queued(), func(name string) bool { return name == deliveries.OwnEndpoint })
	if len(queued) == 0 {
		return nil
	}
	paused, err := d.due.Paused(ctx, queued)
	for _, id := range paused {
		d.scheduler.GiveBack(id)
	}
	return err
}

// wanted returns the destinations that are due and can be called. When there are many receivers whose limits are not
// known yet it looks some up; the others have their turn in the next rounds. Those that cannot be called are set
// aside, so that they delay no other, however many they are.
func (d *Dispatcher) wanted(ctx context.Context) (list []dispatch.Destination, err error) {
	list = make([]dispatch.Destination, 0, len(d.agenda.due))
	var unknown []deliveries.DueRow
	var unusable []string
	add := func(r deliveries.DueRow, receiver receivers.Receiver) {
		switch {
		case r.Destination == deliveries.OwnEndpoint || receiver.Signed():
			list = append(list, d.destination(r.Destination, receiver, r.Failures))
		case !receiver.Usable():
			unusable = append(unusable, r.Destination)
		}
	}
	for _, r := range d.agenda.due {
		receiver, known := d.lookup.remembered(r.Destination)
		switch {
		case known || r.Destination == deliveries.OwnEndpoint:
			add(r, receiver)
		case len(unknown) < lookUpMost:
			unknown = append(unknown, r)
		}
	}
	found, err := d.lookup.read(ctx, lists.Of(unknown, func(r deliveries.DueRow) string { return r.Destination }))
	if err != nil {
		return nil, err
	}
	for _, r := range unknown {
		add(r, found[r.Destination])
	}
	return list, d.setAside(ctx, unusable)
}

// setAside takes the suppliers without a usable receiver off the agenda. Callable puts them back. That they have none
// is looked at once more behind the lock of their rows: an address that comes at the same time is committed before, and
// seen, or its Callable waits for this transaction and makes them due after it.
func (d *Dispatcher) setAside(ctx context.Context, suppliers []string) error {
	if len(suppliers) == 0 {
		return nil
	}
	err := d.deps.DB.InTx(ctx, "set receivers aside", func(ctx context.Context) error {
		locked, err := d.due.LockReceivers(ctx, suppliers)
		if err != nil {
			return err
		}
		now, err := d.deps.Destinations.Receivers(ctx, locked) // Callable waits for the lock from here on
		if err != nil {
			return err
		}
		return d.due.SetAside(ctx, slices.DeleteFunc(locked, func(id string) bool { return now[id].Usable() }))
	})
	if err != nil {
		return fmt.Errorf("set receivers aside that cannot be called: %w", err)
	}
	d.agenda.due = slices.DeleteFunc(d.agenda.due,
		func(r deliveries.DueRow) bool { return slices.Contains(suppliers, r.Destination) })
	d.Wake() // for those that come behind them
	return nil
}

// Callable makes what waits for a supplier's receiver due, in the transaction that gives it an address or activates it.
// The process is an api or a command: it wakes the owner after the COMMIT. Without the wake-up the owner's next look
// finds it.
func (d *Dispatcher) Callable(ctx context.Context, supplierID string) error {
	if err := d.due.DueAgain(ctx, supplierID, d.deps.Now()); err != nil {
		return err
	}
	d.announceAfter(ctx, false, supplierID)
	return nil
}

// claim begins the attempts in the database and has each transaction's sent as soon as it is committed. A delivery
// whose schedule is used up is dead instead. A delivery to a supplier without a receiver waits for one.
func (d *Dispatcher) claim(ctx context.Context, wants map[string]int, send func([]job)) error {
	suppliers := slices.DeleteFunc(slices.Collect(maps.Keys(wants)),
		func(destination string) bool { return destination == deliveries.OwnEndpoint })
	// as they are now: a secret, an address or a limit that was ended is not used for one more call
	receivers, err := d.lookup.read(ctx, suppliers)
	if err != nil {
		return err
	}
	suppliers = slices.DeleteFunc(suppliers, func(id string) bool { return !receivers[id].Signed() })
	for _, id := range suppliers {
		wants[id] = min(wants[id], max(receivers[id].Concurrency, 1))
	}
	// apart from each other: own ones that die change requests, which are locked before receivers
	var failed error
	if wants[deliveries.OwnEndpoint] > 0 {
		jobs, err := d.claimIn(ctx, wants, nil, receivers)
		send(jobs)
		failed = err
	}
	if len(suppliers) > 0 {
		jobs, err := d.claimIn(ctx, wants, suppliers, receivers)
		send(jobs)
		failed = errors.Join(failed, err)
	}
	return failed
}

// claimIn claims in one transaction: for the own endpoint, or for the suppliers. The attempts that it begins are held
// in memory from before the COMMIT on. Where that fails they are released: if they were stored nevertheless, as with a
// COMMIT without an answer, reconcile finds attempts that this worker does not know of and makes them due again (f).
func (d *Dispatcher) claimIn(ctx context.Context, wants map[string]int, suppliers []string,
	receivers map[string]receivers.Receiver) ([]job, error) {
	worker := d.lease.worker()
	if worker == 0 {
		return nil, errNoLease
	}
	var claimed []deliveries.Claimed
	var looked time.Time
	err := d.deps.DB.InTx(ctx, "claim deliveries", func(ctx context.Context) (err error) {
		claimed, err = d.claimDue(ctx, wants, suppliers, worker)
		// A pause before this was seen. One after it waits for the COMMIT, whose answer may be late.
		looked = time.Now()
		for _, c := range claimed { // before the COMMIT: see reconcile
			d.hold(c.ID)
		}
		return err
	})
	for _, c := range claimed {
		if err != nil || c.Dead {
			d.release(c.ID)
		}
	}
	if err != nil {
		return nil, err
	}
	var jobs []job
	for _, c := range claimed {
		if !c.Dead {
			c.Worker = worker
			jobs = append(jobs, job{Begun: c.Begun, target: d.target(c.Destination, receivers), looked: looked})
		}
	}
	return jobs, nil
}

// claimDue locks the receivers first, so that one that is paused gets nothing more. It waits for none of them: one that
// another transaction holds is claimed for in the next round. Without suppliers it claims for the own endpoint. A dead
// delivery has its request failed and its notice stored in the same transaction. Receivers are locked before
// deliveries here, against the order of deliveries.lockByID: it waits for no delivery that is locked, so it cannot
// deadlock with those that lock deliveries first.
func (d *Dispatcher) claimDue(ctx context.Context, wants map[string]int, suppliers []string,
	worker int64) (claimed []deliveries.Claimed, err error) {
	mine := map[string]int{}
	if len(suppliers) == 0 {
		mine[deliveries.OwnEndpoint] = wants[deliveries.OwnEndpoint]
	} else {
		wanted := suppliers
		if suppliers, err = d.due.LockDue(ctx, wanted, worker); err != nil {
			return nil, err
		}
		d.agenda.held = slices.DeleteFunc(wanted, func(id string) bool { return slices.Contains(suppliers, id) })
		for _, id := range suppliers {
			mine[id] = wants[id]
		}
	}
	if len(mine) == 0 {
		return nil, nil
	}
	if claimed, err = d.claimLocked(ctx, mine, worker); err != nil {
		return nil, err
	}
	for _, c := range claimed {
		if c.Dead {
			reason := c.Reason()
			d.deps.Log.WarnContext(c.Context(ctx), "webhook delivery is dead: its schedule is used up", "error", reason)
			if err := d.lost(ctx, c.Begun, deliveries.Dead, reason); err != nil {
				return nil, err
			}
			if err := d.notices.Note(ctx, deliveries.DeadNotice(c.Round, c.ID, reason)); err != nil {
				return nil, err
			}
		}
	}
	if len(suppliers) > 0 {
		err = d.due.RefreshDue(ctx, suppliers, d.deps.Now())
	}
	return claimed, err
}

// claimLocked claims what the locked receivers want, or the own endpoint: first for those that catch up, as the last
// look read them. One that began to meanwhile has its turn after the next look: RefreshDue leaves it due.
func (d *Dispatcher) claimLocked(ctx context.Context, mine map[string]int, worker int64) ([]deliveries.Claimed, error) {
	now, attempts, catchUp := d.deps.Now(), d.schedule.Attempts(), map[string]int{}
	for _, r := range d.agenda.due {
		if n := mine[r.Destination]; r.CatchingUp && n > 0 {
			catchUp[r.Destination] = n
		}
	}
	var first []deliveries.Claimed
	if len(catchUp) > 0 {
		var err error
		if first, err = d.attempts.ClaimCatchingUp(ctx, catchUp, now, worker, attempts); err != nil {
			return nil, err
		}
		for _, c := range first {
			mine[c.Destination]--
		}
	}
	claimed, err := d.attempts.Claim(ctx, mine, now, worker, attempts)
	return append(first, claimed...), err
}
