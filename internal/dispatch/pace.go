package dispatch

import "time"

// burst is how much of a pace may begin at once.
const burst = 100 * time.Millisecond

// pace spreads attempts over time: those that begin together are claimed, end and are written down together, and
// everything else waits for that.
type pace struct{ next time.Time }

func (p *pace) open(now time.Time) bool { return !now.Before(p.next) }

// begin takes an attempt's share of the time.
func (p *pace) begin(now time.Time, share time.Duration) {
	if earliest := now.Add(-burst); p.next.Before(earliest) {
		p.next = earliest
	}
	p.next = p.next.Add(share)
}

// inPace reports whether the destination may begin another attempt now, as far as the pace of its like goes. All probes
// together are a quarter of the slots a second; calls that take long begin no faster than all slots together can
// end them.
func (s *Scheduler[J]) inPace(d *destination[J]) bool {
	switch {
	case d.failing():
		return s.probing.open(s.config.Now())
	case d.took > fastCall:
		return s.slow.open(s.config.Now())
	default:
		return true
	}
}

// probeShare returns the time that a probe takes of its pace. One that succeeds gives it back.
func (s *Scheduler[J]) probeShare() time.Duration { return Cooldown / time.Duration(s.quarter()) }

// paced takes the destination's share of its pace for an attempt that begins. First attempts are not held back.
func (s *Scheduler[J]) paced(d *destination[J], first bool) {
	switch {
	case d.failing():
		s.probing.begin(s.config.Now(), s.probeShare())
	case d.took > fastCall && !first:
		s.slow.begin(s.config.Now(), d.took/time.Duration(2*s.config.Slots))
	}
}
