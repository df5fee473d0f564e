package webhooks

import (
	"slices"
	"sync"
	"time"
)

// breakerAt is how many failures in a row let a destination have one attempt at a time until it answers again.
const breakerAt = 5

// After each failed probe the next one waits, from firstPause doubling to longestPause: a receiver that refuses at once
// would otherwise have its whole backlog tried one after the other, which costs the others' database.
const (
	firstPause   = 100 * time.Millisecond
	longestPause = time.Second
)

// fastCall is how long the calls of a receiver that answers fast take at most, on average. The average follows the last
// calls, a slow one by an eighth of what it took more: a receiver that hangs is slow with its first answer, and a single
// call that waited for a disk changes nothing.
const (
	fastCall = 100 * time.Millisecond
	averaged = 8
)

// fastRemembered is how many destinations with nothing in flight are remembered as fast.
const fastRemembered = 256

// slots says how many attempts may be in flight, in all and to each destination. Nobody waits in it: work that gets
// no slot stays in the database. Three rules keep one destination from taking what others need:
//   - a supplier's receiver has a quarter of the slots at most, or half while it answers fast and so gives them back soon;
//     the own endpoint may have all of them;
//   - a destination with nothing in flight gets a slot even when all are taken (up to twice the limit), and those that
//     answer fast get a quarter of them, so that slow receivers together cannot stop a healthy one;
//   - one that failed breakerAt times in a row gets one probe at a time, with a pause after it that grows to a second, and
//     all probes together a quarter.
type slots struct {
	limit  int
	now    func() time.Time
	signal func() // called when a slot that somebody lacked is free

	mu      sync.Mutex
	open    bool
	total   int
	quick   int // those of them whose destinations answer fast
	probes  int
	starved bool // some destination lacked a slot because others have them
	turn    int
	lanes   map[string]*lane
	busy    sync.WaitGroup
	line    line
	roomy   chan struct{} // what room gave, nil when nobody waits
}

// lane is one destination's state.
type lane struct {
	inFlight int
	lined    int  // attempts and places in line
	failures int  // in a row
	waiting  bool // it has work due and got no slot for all of it
	probing  bool
	took     time.Duration // its calls, on average; 0 before the first answer and after none
	pause    time.Time     // no probe before
}

// idle tells whether nothing is lost when the lane is forgotten.
func (l lane) idle() bool {
	return l.inFlight == 0 && l.lined == 0 && l.failures == 0 && !l.waiting && !l.probing
}

func newSlots(limit int, now func() time.Time, signal func(), start func(job), drop func([]job)) *slots {
	return &slots{limit: max(limit, 1), now: now, signal: signal, line: line{start: start, drop: drop}, lanes: map[string]*lane{}}
}

func (s *slots) quarter() int { return max(s.limit/4, 1) }

func (s *slots) laneLimit(destination string, l *lane) int {
	switch {
	case destination == Own:
		return s.limit
	case l.fast():
		return max(s.limit/2, 1)
	default:
		return s.quarter()
	}
}

// start lets slots be taken.
func (s *slots) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
}

// stop lets no more slots be taken and drops the line; the channel closes when all slots are given back.
func (s *slots) stop() <-chan struct{} {
	s.mu.Lock()
	s.open = false
	dropped := s.advance()
	s.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		if len(dropped) > 0 {
			s.line.drop(dropped)
		}
		s.busy.Wait()
		close(idle)
	}()
	return idle
}

// grant is what a delivery that is just being made gets for its first attempt.
type grant int

const (
	nothing grant = iota // it waits in the database
	slot
	place // in line
)

// takeNew takes a slot for a delivery that is just being made, unless older ones wait, or a place in line.
func (s *slots) takeNew(destination string) grant {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lanes[destination]
	switch older := s.starved || l != nil && l.waiting || len(s.line.jobs) > 0; {
	case !older && s.take(destination):
		return slot
	case s.takePlace(destination):
		return place
	default:
		return nothing
	}
}

// share takes slots for destinations with work that is due, one each in turn until there are none; how many each got
// is the answer. Who may have got too few is remembered until the next call.
func (s *slots) share(due []string) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.makeRoom()
	s.starved = false
	for name, l := range s.lanes {
		l.waiting = false
		s.tidy(name, l)
	}
	got := make(map[string]int, len(due))
	if len(due) == 0 {
		return got
	}
	s.turn = (s.turn + 1) % len(due)
	for hungry := slices.Concat(due[s.turn:], due[:s.turn]); len(hungry) > 0; {
		hungry = slices.DeleteFunc(hungry, func(destination string) bool {
			if s.take(destination) {
				got[destination]++
				return false
			}
			s.wait(destination)
			return true
		})
	}
	return got
}

func (s *slots) wait(destination string) {
	l := s.lane(destination)
	l.waiting = true
	s.starved = s.starved || l.failures < breakerAt && l.inFlight < s.laneLimit(destination, l)
}

func (s *slots) take(destination string) bool {
	l := s.lane(destination)
	if !s.open || !s.mayTake(destination, l) {
		s.tidy(destination, l)
		return false
	}
	if l.failures >= breakerAt {
		l.probing = true
		s.probes++
	}
	s.add(l)
	return true
}

func (s *slots) mayTake(destination string, l *lane) bool {
	switch {
	case l.failures >= breakerAt:
		return l.inFlight == 0 && s.probes < s.quarter() && s.total < 2*s.limit && !s.now().Before(l.pause)
	case l.inFlight == 0:
		return s.total < 2*s.limit
	default:
		return l.inFlight < s.laneLimit(destination, l) && s.spare(l.fast(), s.limit)
	}
}

// spare tells whether there is a slot below the limit. Destinations that answer fast always have a quarter of the slots,
// whoever has the others.
func (s *slots) spare(fast bool, limit int) bool {
	return s.total < limit || fast && s.quick < s.quarter() && s.total < 2*s.limit
}

func (s *slots) add(l *lane) {
	l.inFlight++
	s.total++
	if l.fast() {
		s.quick++
	}
	s.busy.Add(1)
}

// giveBack frees a slot whose attempt never was.
func (s *slots) giveBack(destination string) {
	s.free(destination)
	s.busy.Done()
}

// free lets the next attempt begin; the one that had the slot still owes its result, and then calls written.
func (s *slots) free(destination string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lane(destination)
	l.inFlight--
	s.total--
	if l.fast() {
		s.quick--
	}
	probed := l.probing && l.inFlight == 0
	if probed {
		l.probing = false
		s.probes--
	}
	if l.waiting || s.starved || probed {
		s.signal()
	}
	s.tidy(destination, l)
	s.advanceAndDrop()
}

// written ends an attempt: stop waits for it.
func (s *slots) written() { s.busy.Done() }

// report tells how an attempt ended: answered says that the destination is alive, whatever it said.
func (s *slots) report(destination string, answered bool, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lane(destination)
	l.failures++
	was := l.fast()
	l.took = l.average(answered, took)
	switch {
	case l.fast() && !was:
		s.quick += l.inFlight
	case was && !l.fast():
		s.quick -= l.inFlight
	}
	if answered {
		l.failures = 0
	}
	if l.failures >= breakerAt {
		l.pause = s.now().Add(min(firstPause<<min(l.failures-breakerAt, 10), longestPause))
	}
}

// fast tells whether the destination answers, and fast.
func (l lane) fast() bool { return l.took > 0 && l.took <= fastCall }

// average is what a call takes, given how the last one ended.
func (l lane) average(answered bool, took time.Duration) time.Duration {
	switch {
	case !answered:
		return 0
	case l.took == 0:
		return took
	default:
		return l.took + (took-l.took)/averaged
	}
}

// inFlight is how many slots are taken.
func (s *slots) inFlight() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.total
}

func (s *slots) lane(destination string) *lane {
	l := s.lanes[destination]
	if l == nil {
		l = &lane{}
		s.lanes[destination] = l
	}
	return l
}

// tidy forgets a lane that says nothing, or only that its destination answered fast when there are many such.
func (s *slots) tidy(destination string, l *lane) {
	if l.idle() && (!l.fast() || len(s.lanes) > fastRemembered) {
		delete(s.lanes, destination)
	}
}
