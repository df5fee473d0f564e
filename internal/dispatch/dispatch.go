// Package dispatch decides which attempt goes out when: how many at once, in all and to each destination, which wait in
// memory and which in the database, and which worker serves which supplier. It knows no database and no HTTP.
package dispatch

import (
	"slices"
	"sync"
	"time"
)

// FailingAt is how many failures in a row let a destination have one attempt at a time, a probe, until one succeeds.
const FailingAt = 5

// Cooldown follows each failed probe: a receiver that refuses at once would otherwise have its whole backlog tried one
// by one, which costs the others' database.
const Cooldown = time.Second

// Config is what a Scheduler is built from. Its functions are called without any lock but Wake, which must not block.
type Config[J any] struct {
	Slots    int // attempts in flight at once
	Now      func() time.Time
	Send     func(job J, ended func(Report) Streak) // makes the call; Stop waits until it returns
	GiveBack func(jobs []J)                         // takes leased attempts that will not be sent from here
	Wake     func()                                 // called when a slot is free that Claim had to refuse
}

// Report says how an attempt ended.
type Report struct {
	OK   bool // the destination took it
	Void bool // nothing was sent, or it was cut off: it says nothing of the destination
	Took time.Duration
}

// Streak is how many failures in a row a destination had before an attempt and has after it.
type Streak struct{ Before, After int }

// Failed reports whether the destination began to fail with the attempt.
func (s Streak) Failed() bool { return s.Before < FailingAt && s.After >= FailingAt }

// Recovered reports whether the destination stopped failing with the attempt.
func (s Streak) Recovered() bool { return s.Before >= FailingAt && s.After == 0 }

// Destination is where attempts go.
type Destination struct {
	Name     string
	Limit    int // attempts at once from all workers together; 0: no limit of its own
	Failures int // in a row, as stored; it counts when it is more than the scheduler saw and the scheduler saw no success
}

// Scheduler hands out slots for attempts. Five rules keep one destination from taking what others need, and old
// deliveries and new ones from keeping each other waiting:
//   - a destination with a limit has a quarter of the slots and of its limit at most; half of the slots and its whole
//     limit while it answers fast and so gives them back soon;
//   - a destination with nothing in flight gets a slot even when all are taken (up to twice their number, a quarter of
//     the slots kept for those that answer fast), and these get a quarter of them, so that slow receivers
//     together cannot stop a healthy one;
//   - one that failed FailingAt times in a row gets one probe at a time, with a cooldown after it, and all probes
//     together a quarter of the slots, at once and a second: thousands of dead ones cost no more than that;
//   - probes, and calls known to take long, begin spread over time, as others wait for what begins and ends together;
//   - while deliveries of a destination wait in the database, a quarter of its slots is for these, and the next of its
//     other slots that comes free is for the first attempt that is queued.
//
// It is safe for concurrent use.
type Scheduler[J any] struct {
	config Config[J]
	pool   pool[assignment[J]]

	mu           sync.Mutex
	open         bool
	total        int // attempts in flight
	quick        int // those of them whose destinations answer fast
	probes       int
	probing      pace // of all probes
	slow         pace // of attempts at destinations that take long, but for first ones
	held         bool // a pace held work back since the last Claim began
	starved      bool // some destination lacked a slot because others have them
	turn         int
	destinations map[string]*destination[J]
	waiting      []*destination[J] // have work due and got no slot for all of it
	elsewhere    map[string]int    // attempts that former owners of destinations still have in flight
	queue        readyQueue[J]
	busy         sync.WaitGroup
}

// New returns a scheduler that grants nothing before Start.
func New[J any](config Config[J]) *Scheduler[J] {
	config.Slots = max(config.Slots, 1)
	s := &Scheduler[J]{config: config, destinations: map[string]*destination[J]{}}
	s.queue.members = map[*destination[J]]struct{}{}
	s.pool.work = s.attempt
	return s
}

// Start lets slots be taken.
func (s *Scheduler[J]) Start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
}

// Stop grants nothing more and gives the ready queue back; the channel closes when all attempts have ended.
func (s *Scheduler[J]) Stop() <-chan struct{} {
	s.mu.Lock()
	s.open = false
	dropped := s.dropQueued(func(*destination[J]) bool { return true })
	s.mu.Unlock()
	s.pool.close()
	idle := make(chan struct{})
	go func() {
		if len(dropped) > 0 {
			s.config.GiveBack(dropped)
		}
		s.busy.Wait()
		close(idle)
	}()
	return idle
}

// InFlight returns how many attempts are in flight.
func (s *Scheduler[J]) InFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

// Permit lets one attempt be made. It is used up by Send or Cancel.
type Permit[J any] struct {
	s      *Scheduler[J]
	to     *destination[J]
	queued bool // it is for a place in the ready queue, not for a slot
	first  bool // its delivery did not wait in the database
}

// Send sends the job in the background, now or from the ready queue.
func (p Permit[J]) Send(job J) {
	if p.queued {
		p.s.push(p.to, job)
		return
	}
	p.s.pool.begin(assignment[J]{p.to, job, p.first})
}

// Cancel releases a permit whose attempt was never begun.
func (p Permit[J]) Cancel() {
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if p.queued {
		p.s.queue.reserved--
		p.to.reserved--
		p.s.evict(p.to)
		p.s.queue.makeRoom(p.s)
		return
	}
	p.s.free(p.to, p.first)
	p.s.busy.Done()
}

// Admit returns a permit for a delivery that is just being made: a slot, unless older ones wait, or a place in the
// ready queue. Without one the delivery waits in the database.
func (s *Scheduler[J]) Admit(to Destination) (Permit[J], bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.state(to)
	older := s.starved || d.waiting || s.queue.length > 0
	switch {
	case !s.open:
	case !older && s.take(d, true):
		return Permit[J]{s, d, false, true}, true
	case s.mayQueue(d):
		s.queue.reserved++
		d.reserved++
		return Permit[J]{s, d, true, true}, true
	}
	s.evict(d)
	return Permit[J]{}, false
}

// Claim takes slots for destinations with due work, one each in turn until there are none, and returns the permits of
// each. It remembers which got too few until the next call.
func (s *Scheduler[J]) Claim(due []Destination) map[string][]Permit[J] {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveBack(s.dropLate())
	waited := s.resetWaiting()
	s.held = false
	defer func() {
		for _, d := range waited {
			s.evict(d)
		}
		s.advance()
	}()
	permits := make(map[string][]Permit[J])
	hungry := make([]int, len(due))
	for i := range hungry {
		hungry[i] = (s.turn + i) % len(due) // behind the one that got a slot last
	}
	for len(hungry) > 0 {
		hungry = slices.DeleteFunc(hungry, func(i int) bool {
			d := s.state(due[i])
			switch {
			case !s.inPace(d):
				s.held = true
				s.mark(d)
				return true
			case s.open && s.take(d, false):
				s.turn = i + 1
				permits[d.name] = append(permits[d.name], Permit[J]{s, d, false, false})
				return false
			}
			s.wait(d)
			return true
		})
	}
	return permits
}

// Again returns after what time Claim has more to give though no attempt has ended; 0: not before one has.
func (s *Scheduler[J]) Again() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held {
		return burst
	}
	return 0
}

// Own forgets the destinations that this worker no longer owns, whose queued attempts are given back, and notes how
// many calls former owners still have in flight to its destinations.
func (s *Scheduler[J]) Own(owned func(name string) bool, elsewhere map[string]int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.elsewhere = elsewhere
	lost := func(d *destination[J]) bool { return d.limit > 0 && !owned(d.name) }
	s.giveBack(s.dropQueued(lost))
	for name, d := range s.destinations {
		d.elsewhere = elsewhere[name]
		if lost(d) {
			d.forget(s)
			s.evict(d)
		}
	}
	for d := range s.queue.members {
		s.queue.unpark(d)
	}
	s.advance()
}

// GiveBack takes the destination's attempts out of the ready queue.
func (s *Scheduler[J]) GiveBack(name string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.giveBack(s.dropQueued(func(d *destination[J]) bool { return d.name == name }))
	s.advance()
}

// Queued returns the destinations with attempts in the ready queue.
func (s *Scheduler[J]) Queued() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	names := make([]string, 0, len(s.queue.members))
	for d := range s.queue.members {
		names = append(names, d.name)
	}
	return names
}

// resetWaiting forgets who waits and returns those who did.
func (s *Scheduler[J]) resetWaiting() (waited []*destination[J]) {
	s.starved, waited, s.waiting = false, s.waiting, nil
	for _, d := range waited {
		d.waiting = false
		s.queue.unpark(d)
	}
	return waited
}

// mark notes that the destination has work due and got no slot for all of it.
func (s *Scheduler[J]) mark(d *destination[J]) {
	if !d.waiting {
		d.waiting = true
		s.waiting = append(s.waiting, d)
	}
}

func (s *Scheduler[J]) wait(d *destination[J]) {
	s.mark(d)
	s.starved = s.starved || !d.failing() && d.inFlight < d.allowed(s.config.Slots)
}

func (s *Scheduler[J]) quarter() int { return max(s.config.Slots/4, 1) }

func (s *Scheduler[J]) take(d *destination[J], first bool) bool {
	if !s.mayTake(d) {
		return false
	}
	if d.failing() {
		d.probing = true
		s.probes++
	}
	s.paced(d, first)
	d.inFlight++
	if d.wasFirst = first; first {
		d.firsts++
	}
	s.total++
	if d.fast() {
		s.quick++
	}
	s.busy.Add(1)
	return true
}

func (s *Scheduler[J]) mayTake(d *destination[J]) bool {
	slots := s.config.Slots
	switch {
	case d.failing():
		return d.inFlight == 0 && s.probes < s.quarter() && s.first(d) && !s.config.Now().Before(d.cooldown) && s.inPace(d)
	case d.inFlight >= d.allowed(slots):
		return false
	case d.inFlight == 0:
		return s.first(d)
	default:
		return s.spare(d.fast(), slots)
	}
}

// first reports whether there is a slot for a destination with nothing in flight. Those that do not answer fast leave a
// quarter of the slots to those that do.
func (s *Scheduler[J]) first(d *destination[J]) bool {
	slots := s.config.Slots
	return s.total < 2*slots && (d.fast() || d.limit == 0 || s.total-s.quick < 2*slots-slots/4)
}

// spare reports whether there is a slot below the limit. Destinations that answer fast always have a quarter of the
// slots.
func (s *Scheduler[J]) spare(fast bool, limit int) bool {
	return s.total < limit || fast && s.quick < s.quarter() && s.total < 2*s.config.Slots
}

// attempt sends one job; its slot is free as soon as its end is reported.
func (s *Scheduler[J]) attempt(a assignment[J]) {
	defer s.busy.Done()
	s.config.Send(a.job, func(r Report) Streak {
		s.mu.Lock()
		defer s.mu.Unlock()
		streak := Streak{Before: a.to.failures}
		if !r.Void {
			s.report(a.to, r)
		}
		streak.After = a.to.failures
		s.free(a.to, a.first)
		return streak
	})
}

func (s *Scheduler[J]) report(d *destination[J], r Report) {
	was := d.fast()
	if d.probing && r.OK {
		s.probing.next = s.probing.next.Add(-s.probeShare())
	}
	d.ended(r, s.config.Now())
	switch {
	case d.fast() && !was:
		s.quick += d.inFlight
	case was && !d.fast():
		s.quick -= d.inFlight
	}
	if len(d.queued) > 0 && !d.queues() {
		s.giveBack(s.dropQueued(func(of *destination[J]) bool { return of == d }))
	}
}

// free lets the next attempt begin.
func (s *Scheduler[J]) free(d *destination[J], first bool) {
	d.inFlight--
	if first {
		d.firsts--
	}
	s.total--
	if d.fast() {
		s.quick--
	}
	probed := d.probing && d.inFlight == 0
	if probed {
		d.probing = false
		s.probes--
	}
	if s.starved || (d.waiting || probed) && s.inPace(d) {
		s.config.Wake()
	}
	s.queue.unpark(d)
	s.evict(d)
	s.advance()
}

// giveBack hands jobs over in the background: it is called under the lock.
func (s *Scheduler[J]) giveBack(jobs []J) {
	if len(jobs) > 0 {
		go s.config.GiveBack(jobs)
	}
}
