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

// fastCall is how long the last call of a receiver that may have all slots has taken at most.
const fastCall = 100 * time.Millisecond

// slots says how many attempts may be in flight, in all and to each destination. Nobody waits in it: work that gets
// no slot stays in the database. Three rules keep one destination from taking what others need:
//   - a supplier's receiver has a quarter of the slots at most, unless it answers fast and so gives them back soon; the
//     own endpoint may have all of them;
//   - a destination with nothing in flight gets a slot even when all are taken (up to twice the limit), so that slow
//     receivers together cannot stop a healthy one;
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
	roomy   chan struct{} // what room gave, nil when nobody waits
}

// lane is one destination's state.
type lane struct {
	inFlight int
	failures int  // in a row
	waiting  bool // it has work due and got no slot for all of it
	probing  bool
	fast     bool
	pause    time.Time // no probe before
}

// idle tells whether nothing is lost when the lane is forgotten.
func (l lane) idle() bool { return l.inFlight == 0 && l.failures == 0 && !l.waiting && !l.probing }

func newSlots(limit int, now func() time.Time, signal func()) *slots {
	return &slots{limit: max(limit, 1), now: now, signal: signal, lanes: map[string]*lane{}}
}

func (s *slots) quarter() int { return max(s.limit/4, 1) }

func (s *slots) laneLimit(destination string, l *lane) int {
	if destination == Own || l.fast {
		return s.limit
	}
	return s.quarter()
}

// start lets slots be taken.
func (s *slots) start() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = true
}

// stop lets no more slots be taken; the channel closes when all are given back.
func (s *slots) stop() <-chan struct{} {
	s.mu.Lock()
	s.open = false
	s.mu.Unlock()
	idle := make(chan struct{})
	go func() {
		s.busy.Wait()
		close(idle)
	}()
	return idle
}

// takeNew takes a slot for a delivery that is just being made. It stands back while older ones wait.
func (s *slots) takeNew(destination string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if l := s.lanes[destination]; s.starved || l != nil && l.waiting {
		return false
	}
	return s.take(destination)
}

// room is closed, now or later, when at most half of the slots are taken by destinations that will soon give theirs back:
// to wait for the others would let them slow everybody down.
func (s *slots) room() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.roomy == nil {
		s.roomy = make(chan struct{})
	}
	room := s.roomy
	s.makeRoom()
	return room
}

func (s *slots) makeRoom() {
	if s.roomy != nil && s.quick <= s.limit/2 {
		close(s.roomy)
		s.roomy = nil
	}
}

// takeAgain takes a slot whatever the limits say, for an attempt that is begun already; false after stop.
func (s *slots) takeAgain(destination string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open {
		return false
	}
	s.add(s.lane(destination))
	return true
}

// share takes slots for destinations with work that is due, one each in turn until there are none; how many each got
// is the answer. Who may have got too few is remembered until the next call.
func (s *slots) share(due []string) map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
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
		return l.inFlight < s.laneLimit(destination, l) && s.total < s.limit
	}
}

func (s *slots) add(l *lane) {
	l.inFlight++
	s.total++
	if l.fast {
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
	if l.fast {
		s.quick--
	}
	s.makeRoom()
	probed := l.probing && l.inFlight == 0
	if probed {
		l.probing = false
		s.probes--
	}
	if l.waiting || s.starved || probed {
		s.signal()
	}
	s.tidy(destination, l)
}

// written ends an attempt: stop waits for it.
func (s *slots) written() { s.busy.Done() }

// report tells how an attempt ended: answered says that the destination is alive, whatever it said.
func (s *slots) report(destination string, answered bool, took time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.lane(destination)
	l.failures++
	if fast := answered && took <= fastCall; fast != l.fast {
		l.fast = fast
		s.quick += l.inFlight
		if !fast {
			s.quick -= 2 * l.inFlight
		}
	}
	if answered {
		l.failures = 0
	}
	if l.failures >= breakerAt {
		l.pause = s.now().Add(min(firstPause<<min(l.failures-breakerAt, 10), longestPause))
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

// tidy forgets a lane that says nothing.
func (s *slots) tidy(destination string, l *lane) {
	if l.idle() {
		delete(s.lanes, destination)
	}
}
