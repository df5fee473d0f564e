package scoreboard

import (
	"context"
	"time"
)

// A caller that is refused still has the requester's quota in its answer. Such calls cost nothing to make, so what they
// are shown is remembered for a moment.

// refusedTrust is how old the quota may be that a refused caller is shown: all wrong keys of a requester together cost
// four statements a second.
const refusedTrust = 250 * time.Millisecond

// sighting is how many units of a requester's day were seen spent. They only grow: the largest number is the newest.
type sighting struct {
	day  time.Time
	used int64
	at   time.Time // of the last reading; spending knows of no other replica
}

// note keeps what was seen spent; readAt is zero when the database was not asked for it. It needs s.turn.
func (s *Service) note(item spend, used int64, readAt time.Time) {
	known := s.seen[item.requester]
	if known.day != item.day {
		known = sighting{day: item.day}
	}
	known.used = max(known.used, used)
	if known.at.Before(readAt) {
		known.at = readAt
	}
	s.seen[item.requester] = known
}

// shown returns the requester's quota for a caller that is refused: units spent by this process are in it, others' for
// refusedTrust at most not. While the database is unavailable it is what was known last.
func (s *Service) shown(ctx context.Context, requester string) quota {
	item := s.unit(requester)
	s.turn.Lock()
	defer s.turn.Unlock()
	if known := s.seen[requester]; known.day != item.day || s.deps.Local().Sub(known.at) >= refusedTrust {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), spendTimeout)
		defer cancel()
		q, _ := s.standing(ctx, requester)
		s.note(item, q.used, s.deps.Local()) // a failure too: it is not tried more often than it would be read
	}
	return s.lastSeen(item)
}

// lastSeen returns the quota as this process knows it. It needs s.turn.
func (s *Service) lastSeen(item spend) quota {
	q := quota{limit: s.settings.lastQuota(), reset: item.ends()}
	if known := s.seen[item.requester]; known.day == item.day {
		q.used = known.used
	}
	return q
}

// unit returns one unit of the requester's day.
func (s *Service) unit(requester string) spend {
	return spend{requester, Day(s.deps.Now())}
}
