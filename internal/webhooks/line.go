package webhooks

import (
	"slices"
	"time"
)

const (
	lineLength = 8           // attempts that may stand in line, for each slot
	lineMost   = 1024        // and in all
	lineWait   = time.Second // who stood in line longer than this goes back to the database
)

// line is where first attempts wait that are begun with their deliveries and have no slot yet: those of destinations that
// answer fast, so that each gets a slot within milliseconds. Everything else waits in the database, which costs two more
// writes and a search a delivery. It belongs to slots and is used under their lock.
type line struct {
	start    func(job)   // sends one, which has a slot, in the background
	drop     func([]job) // gives some back to the database
	reserved int         // places for what is being made
	placed   int         // places given to deliveries whose transaction is not over
	jobs     []lined     // the longest waiting first
}

type lined struct {
	job
	since time.Time
}

func (s *slots) lineLimit() int { return min(lineLength*s.limit, lineMost) }

// load is what is ahead of anything new: attempts in flight that will soon be over, those that stand in line or may.
func (s *slots) load() int { return s.quick + s.line.reserved + s.line.placed + len(s.line.jobs) }

// takePlace takes a place in line for a delivery that is just being made.
func (s *slots) takePlace(destination string) bool {
	l := s.lane(destination)
	if !s.open || !l.fast() || l.failures > 0 || s.line.placed+len(s.line.jobs) >= s.limit+s.lineLimit() {
		s.tidy(destination, l)
		return false
	}
	s.line.placed++
	l.lined++
	return true
}

// leave gives a place back whose delivery never was.
func (s *slots) leave(destination string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.placed--
	l := s.lane(destination)
	l.lined--
	s.tidy(destination, l)
	s.makeRoom()
}

// enter lets a job into line, in the place that was taken for it.
func (s *slots) enter(j job) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.placed--
	s.line.jobs = append(s.line.jobs, lined{j, s.now()})
	s.advanceAndDrop()
}

func (s *slots) advanceAndDrop() {
	if dropped := s.advance(); len(dropped) > 0 {
		go s.line.drop(dropped)
	}
}

// advance gives free slots to those who stand in line, one after the other. Those who are too late are to be dropped.
func (s *slots) advance() (dropped []job) {
	limit, n := s.limit, 0
	if s.starved { // the database waits too
		limit -= s.quarter()
	}
	for n < len(s.line.jobs) && (!s.open || s.spare(true, limit)) {
		j := s.line.jobs[n]
		l := s.lane(j.destination)
		if s.late(j, l) {
			dropped = append(dropped, s.dropLate(n)...)
			continue
		}
		if !s.mayTake(j.destination, l) {
			break // one of its own ends soon
		}
		l.lined--
		s.add(l)
		s.line.start(j.job)
		n++
	}
	clear(s.line.jobs[:n])
	s.line.jobs = s.line.jobs[n:]
	s.makeRoom()
	return dropped
}

// late tells whether somebody in line is not to be sent from there: after stop, when the wait was too long, or when the
// destination has become slow or fails.
func (s *slots) late(j lined, l *lane) bool {
	return !s.open || !l.fast() || s.now().Sub(j.since) > lineWait
}

// dropLate takes all who are late out of the line, behind the first n: they go back to the database together.
func (s *slots) dropLate(n int) (dropped []job) {
	rest := slices.DeleteFunc(s.line.jobs[n:], func(j lined) bool {
		l := s.lane(j.destination)
		late := s.late(j, l)
		if late {
			l.lined--
			s.tidy(j.destination, l)
			dropped = append(dropped, j.job)
		}
		return late
	})
	s.line.jobs = s.line.jobs[:n+len(rest)]
	return dropped
}

// reserve grants as many of the wanted places as are free, once that is all of them or half of all places. Others wait on
// the channel. Slow destinations do not count: to wait for these would let them slow everybody down.
func (s *slots) reserve(want int) (granted int, room <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if free := s.limit + s.lineLimit() - s.load(); !s.ownWaits() && free >= min(want, s.lineLimit()/2) {
		granted = min(want, free)
		s.line.reserved += granted
		return granted, nil
	}
	if s.roomy == nil {
		s.roomy = make(chan struct{})
	}
	return 0, s.roomy
}

// reserveAnyway grants what is wanted although there is no room.
func (s *slots) reserveAnyway(want int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.reserved += want
}

// release ends a reservation: what it was for has its slots and places by now.
func (s *slots) release(granted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.line.reserved -= granted
	s.makeRoom()
}

// ownWaits tells whether something in the database waits for a slot to the own endpoint.
func (s *slots) ownWaits() bool {
	own := s.lanes[Own]
	return own != nil && own.waiting
}

func (s *slots) makeRoom() {
	if s.roomy != nil && !s.ownWaits() && s.load() <= s.limit+s.lineLimit()/2 {
		close(s.roomy)
		s.roomy = nil
	}
}
