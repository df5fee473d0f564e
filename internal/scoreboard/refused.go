package scoreboard

import (
	"context"
	"sync"
	"time"
)

// A caller that is refused still has the requester's quota in its answer. Such calls cost nothing to make, so what they
// are shown is remembered for a moment.

// refusedTrust is how old the quota may be that a refused caller is shown: all wrong keys of a requester together cost
// four statements a second.
const refusedTrust = 250 * time.Millisecond

// sightings remembers how many units of a day were seen spent. They only grow, so the largest number is the newest.
type sightings struct {
	reading sync.Mutex // is held while the database is asked, for all who are refused at that moment
	mu      sync.Mutex
	latest  map[string]sighting // by requester, under mu: batches of spending and readings write it, refusals read it
}

// sighting is how much of a requester's day was seen spent.
type sighting struct {
	day  time.Time
	used int64
	at   time.Time // of the last reading; spending knows of no other replica
}

// note keeps what was seen spent; readAt is zero when the database was not asked for it.
func (s *sightings) note(item spend, used int64, readAt time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.latest[item.requester]
	if known.day != item.day {
		known = sighting{day: item.day}
	}
	known.used = max(known.used, used)
	if known.at.Before(readAt) {
		known.at = readAt
	}
	if s.latest == nil {
		s.latest = map[string]sighting{}
	}
	s.latest[item.requester] = known
}

// of returns what was seen spent, and whether it was read lately.
func (s *sightings) of(item spend, now time.Time) (used int64, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.latest[item.requester]
	if known.day != item.day {
		return 0, false
	}
	return known.used, now.Sub(known.at) < refusedTrust
}

// shown returns the requester's quota for a caller that is refused: units spent by this process are in it, others' for
// refusedTrust at most not. While the database is unavailable it is what was known last.
func (s *Service) shown(ctx context.Context, requester string) quota {
	item := s.unit(requester)
	s.seen.reading.Lock()
	defer s.seen.reading.Unlock()
	if _, fresh := s.seen.of(item, s.local()); !fresh {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settingsTimeout)
		defer cancel()
		_, _ = s.standing(ctx, requester) // it notes what it reads
	}
	return s.lastSeen(item)
}

// lastSeen returns the quota as this process knows it.
func (s *Service) lastSeen(item spend) quota {
	used, _ := s.seen.of(item, s.local())
	return quota{limit: s.settings.lastQuota(), used: used, reset: item.ends()}
}
