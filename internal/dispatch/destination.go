package dispatch

import "time"

// fastCall is how long the calls of a destination that answers fast take at most, on average. The average follows the
// last calls, a slow one by an eighth of what it took more: a receiver that hangs is slow with its first answer, and a
// single call that waited for a disk changes nothing.
const (
	fastCall = 100 * time.Millisecond
	averaged = 8
)

// mostRemembered is how many destinations with nothing in flight are remembered as fast.
const mostRemembered = 1 << 15

// destination is one destination's state. While it fails it is probed:
//
//	          FailingAt failures in a row
//	healthy ──────────────────────────────▶ cooldown ◀──┐ failed
//	   ▲                                       │        │
//	   └───────────────── probe ◀──────────────┘        │
//	        success         └───────────────────────────┘
type destination[J any] struct {
	name      string
	limit     int // attempts at once from all workers together; 0: no limit of its own
	elsewhere int // attempts that former owners still have in flight
	inFlight  int
	firsts    int           // of them, those that did not wait in the database
	wasFirst  bool          // the last that was begun is such a one
	reserved  int           // places in the ready queue for what is being made
	queued    []queued[J]   // leased attempts that wait for a slot, the oldest first
	ready     bool          // it is in the ready queue's heap
	failures  int           // in a row
	answered  bool          // an attempt succeeded: its stored failures may be older
	waiting   bool          // it has work due and got no slot for all of it
	probing   bool          // its attempt in flight is a probe
	took      time.Duration // its calls, on average; 0 before the first success and after a failure
	cooldown  time.Time     // no probe before
}

// state returns what is known of a destination.
func (s *Scheduler[J]) state(to Destination) *destination[J] {
	d := s.destinations[to.Name]
	if d == nil {
		d = &destination[J]{name: to.Name, elsewhere: s.elsewhere[to.Name]}
		s.destinations[to.Name] = d
	}
	d.limit = to.Limit
	if to.Failures > d.failures && !d.answered {
		d.failures = to.Failures
		if d.failing() { // the owner before may have probed it just now
			d.cooldown = s.config.Now().Add(Cooldown)
		}
	}
	return d
}

// evict drops state with nothing worth keeping, or only that the destination answers fast when there are many such.
func (s *Scheduler[J]) evict(d *destination[J]) {
	if d.idle() && (!d.fast() || len(s.destinations) > mostRemembered) && s.destinations[d.name] == d {
		delete(s.destinations, d.name)
	}
}

func (d *destination[J]) idle() bool {
	return d.inFlight == 0 && d.reserved == 0 && len(d.queued) == 0 && d.failures == 0 && !d.waiting && !d.probing
}

// forget drops what only the owner may know.
func (d *destination[J]) forget(s *Scheduler[J]) {
	if d.fast() {
		s.quick -= d.inFlight
	}
	d.took, d.failures, d.answered = 0, 0, false
}

// allowed returns how many attempts may be in flight to a destination that does not fail.
func (d *destination[J]) allowed(slots int) int {
	switch {
	case d.limit == 0:
		return slots
	case d.fast():
		return min(max(slots/2, 1), d.limit-d.elsewhere)
	default:
		return min(max(slots/4, 1), max(d.limit/4, 1)-d.elsewhere)
	}
}

// share reports whether one more first attempt leaves what waits in the database its share of the destination's slots:
// a quarter, or every other turn of a single slot.
func (d *destination[J]) share(slots int) bool {
	switch allowed := d.allowed(slots); {
	case !d.waiting:
		return true
	case allowed <= 1:
		return !d.wasFirst
	default:
		return d.firsts < allowed-max(allowed/4, 1)
	}
}

// mostQueued returns how many of its attempts may be queued: while others of it wait in the database, as many as it
// answers in a moment, so that they do not keep others' from being queued.
func (d *destination[J]) mostQueued(slots int) int {
	allowed := d.allowed(slots)
	if d.waiting && d.took > 0 {
		return min(2*queuePerSlot*allowed, allowed*int(max(fastCall/d.took, 1)))
	}
	return 2 * queuePerSlot * allowed
}

func (d *destination[J]) failing() bool { return d.failures >= FailingAt }

// fast reports whether the destination answers, and fast.
func (d *destination[J]) fast() bool { return d.took > 0 && d.took <= fastCall }

// queues reports whether its attempts may wait in the ready queue.
func (d *destination[J]) queues() bool {
	return d.failures == 0 && (d.fast() || d.limit == 0 && d.took > 0)
}

// ended notes the end of an attempt.
func (d *destination[J]) ended(r Report, now time.Time) {
	if !r.OK {
		d.failures++
		d.took = 0
		if d.failing() {
			d.cooldown = now.Add(Cooldown)
		}
		return
	}
	d.failures, d.answered = 0, true
	if d.took == 0 {
		d.took = max(r.Took, 1)
		return
	}
	d.took += (r.Took - d.took) / averaged
}
