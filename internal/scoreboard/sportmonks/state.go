package sportmonks

import (
	"time"

	"github.com/supplyhub/supplyhub/internal/scoreboard"
	"github.com/supplyhub/supplyhub/internal/scoreboard/fetch"
)

// The states whose minute differs.
const (
	stateFirstHalf    = 2
	stateHalfTime     = 3
	stateBreak        = 4
	stateExtraTime    = 6
	stateAfterExtra   = 7
	stateAfterPens    = 8
	statePenalties    = 9
	stateDeleted      = 20
	stateExtraBreak   = 21
	stateSecondHalf   = 22
	stateExtraSecond  = 23
	statePenaltyBreak = 25
)

// statusOf reads the state's number: short names occur twice, and names may be translated.
func statusOf(state int64) scoreboard.Status {
	switch state {
	case 1, 13, 16: // not started, to be announced, delayed
		return scoreboard.Scheduled
	case stateFirstHalf, stateHalfTime, stateBreak, stateExtraTime, statePenalties, stateExtraBreak, stateSecondHalf,
		stateExtraSecond, statePenaltyBreak:
		return scoreboard.InProgress
	case 5, stateAfterExtra, stateAfterPens, 14, 17: // full time, …, walk-over, awarded
		return scoreboard.Finished
	case 10:
		return scoreboard.Postponed
	case 11, 18: // suspended, interrupted
		return scoreboard.Suspended
	case 12:
		return scoreboard.Cancelled
	case 15:
		return scoreboard.Abandoned
	default: // awaiting updates, pending, and what is new
		return scoreboard.Unknown
	}
}

// period is a part of a match.
type period struct{ fetch.Object }

// span returns from which match minute to which a type of period lasts; the provider's own counts_from is not always
// right.
func span(typeID int64) (from, to int64) {
	switch typeID {
	case 1:
		return 0, 45
	case 2:
		return 45, 90
	case 3:
		return 90, 120
	default:
		return 120, 120
	}
}

// minute never falls: stoppage time counts as the period's last minute.
func (f fixture) minute(status scoreboard.Status, now time.Time) int {
	switch f.state() {
	case stateHalfTime:
		return 45
	case stateBreak:
		return 90
	case stateExtraBreak:
		return 105
	case statePenaltyBreak, statePenalties, stateAfterExtra, stateAfterPens:
		return 120
	}
	switch status {
	case scoreboard.Finished:
		return 90
	case scoreboard.InProgress:
		return f.running(now)
	case scoreboard.Suspended, scoreboard.Abandoned:
		return f.stopped()
	default:
		return 0
	}
}

// running returns the ticking period's minute, counted from its start when it is not given.
func (f fixture) running(now time.Time) int {
	for _, p := range f.List("periods") {
		if p.True("ticking") {
			return period{p}.minute(now)
		}
	}
	switch f.state() {
	case stateSecondHalf:
		return 46
	case stateExtraTime:
		return 91
	case stateExtraSecond:
		return 106
	default:
		return 1
	}
}

// stopped returns the minute in which the last period ended.
func (f fixture) stopped() int {
	minute, last := 0, int64(-1)
	for _, p := range f.List("periods") {
		order, _ := p.Int("sort_order")
		if _, known := p.Int("minutes"); known && order > last {
			minute, last = period{p}.minute(time.Time{}), order
		}
	}
	return minute
}

func (p period) minute(now time.Time) int {
	kind, _ := p.Int("type_id")
	from, to := span(kind)
	minute := from
	minutes, known := p.Int("minutes")
	started, _ := p.Int("started")
	switch {
	case known && minutes < from:
		minute += max(minutes, 0) // counted from the period's start
	case known:
		minute = minutes
	case started > 0:
		minute += max(now.Unix()-started, 0) / 60
	}
	return int(min(minute, to))
}

// progress never falls and is 100 at the end only.
func (f fixture) progress(status scoreboard.Status, minute int) int {
	switch status {
	case scoreboard.Finished:
		return 100
	case scoreboard.InProgress:
		switch f.state() {
		case stateHalfTime:
			return 50
		case stateFirstHalf, stateSecondHalf:
			return min(99, minute*100/90)
		default:
			return 99
		}
	case scoreboard.Suspended, scoreboard.Abandoned:
		return min(99, minute*100/90)
	default:
		return 0
	}
}
