package database

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"time"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/sleep"
)

// Several processes on several machines compare stored times, so all of them use one clock: the database's. Each
// measures it once a second and carries it on by its own monotonic clock in between. A measurement that is more than a
// second off is a jump, or a slow answer; it is a jump if a second measurement agrees. Until then, and for ten seconds
// after, other processes may use the other time (NowElsewhere). So our own signatures are checked against both.

// ClockApart is how far the times of two processes may be apart while the database's clock goes well.
const ClockApart = time.Second

const (
	clockEvery   = time.Second
	clockAgain   = 100 * time.Millisecond // until the measurement that confirms a jump
	clockHold    = time.Second            // a step back of up to this is waited out and does not count as a jump
	clockRecent  = 10 * time.Second
	clockTimeout = 2 * time.Second
	clockTries   = 5 // of a command, before it gives up
)

// Clock follows the database's clock, so that all processes on one database share one time whatever their own clocks
// say: measured each second, and carried on by the process's monotonic clock in between. It goes back only when the
// database's clock was set back, or another server with another clock took over.
type Clock struct {
	read func(context.Context) (measurement, error) // called by follow, Known and NowElsewhere, without the lock
	log  *slog.Logger

	// mu guards all below: follow and its callers write it each second, every Now reads it and writes given and latest.
	mu      sync.Mutex
	local   func() time.Time // monotonic
	known   bool             // whether there was a measurement
	last    measurement
	suspect *measurement // does not agree with the last one: a jump, when the next one agrees with it
	given   time.Time    // the last time that was given out
	latest  time.Time    // the furthest that it has been
	jumps   int64
	jumped  time.Time   // local, of the last jump
	former  measurement // before it
}

// measurement is that the database's clock was at base, give or take off, when the local one was at at.
type measurement struct {
	at, base time.Time
	off      time.Duration
}

// drift is how much a machine's clock may go wrong, as a part of the time that passes.
const drift = 5000

// then returns the database's time at a local time, carried on from the measurement.
func (m measurement) then(local time.Time) time.Time { return m.base.Add(local.Sub(m.at)) }

// grown returns how far off the measurement may be by then.
func (m measurement) grown(local time.Time) time.Duration { return m.off + local.Sub(m.at)/drift }

// apart returns how much further than both may be off the later measurement is from this one.
func (m measurement) apart(later measurement) time.Duration {
	return max(later.base.Sub(m.then(later.at)).Abs()-m.grown(later.at)-later.off, 0)
}

// set takes a measurement. One that agrees with what is known and is less exact is dropped. One that is more than
// clockHold apart is taken when the next one confirms it: set then returns by how much the clock jumped; until then
// doubt says that it is to be measured again.
func (c *Clock) set(m measurement) (jump time.Duration, doubt bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	apart := c.last.apart(m)
	switch {
	case !c.known:
	case apart == 0 && m.off > c.last.grown(m.at):
		c.suspect = nil
		return 0, false
	case apart <= clockHold:
	case c.suspect == nil || c.suspect.apart(m) > clockHold:
		c.suspect = &m
		return 0, true
	default:
		jump = m.base.Sub(c.last.then(m.at))
		c.note(c.last.then(m.at))
		c.jumps++
		c.jumped, c.former = m.at, c.last
	}
	c.last, c.known, c.suspect = m, true, nil
	return jump, false
}

// note keeps the furthest time.
func (c *Clock) note(now time.Time) {
	if now.After(c.latest) {
		c.latest = now
	}
}

// elsewhere returns the other time that processes may use while the clock jumps.
func (c *Clock) elsewhere() (time.Time, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	local := c.local()
	switch {
	case c.suspect != nil:
		return c.suspect.then(local), true
	case c.jumps > 0 && local.Sub(c.jumped) < clockRecent:
		return c.former.then(local), true
	default:
		return time.Time{}, false
	}
}

// Now returns the database's time, UTC: for what is stored, and for nothing that lasts within this process, as it jumps
// with the database's clock. SQLite's is that of the machine. It carries the last measurement on, and does not go back
// by less than clockHold: it then repeats the time that it gave last until the database's clock is past it.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.last.then(c.local()); now.After(c.given) || c.given.Sub(now) > clockHold {
		c.given = now
		c.note(now)
	}
	return c.given
}

// Latest returns the furthest that Now has been: times that another process stored before the clock was set back are
// not after it.
func (c *Clock) Latest() time.Time {
	c.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.latest
}

// ClockJumps returns how often the database's clock has jumped while this process followed it.
func (c *Clock) ClockJumps() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.jumps
}

// NowElsewhere measures the database's clock. While it jumps, and for some seconds after, it returns the time that
// other processes may still, or already, use.
func (c *Clock) NowElsewhere(ctx context.Context) (other time.Time, jumping bool) {
	c.measure(ctx)
	return c.elsewhere()
}

// Known returns an error unless the database's clock was measured, which it tries a few times: nothing may be deleted
// by the machine's clock.
func (c *Clock) Known(ctx context.Context) error {
	for range clockTries {
		c.mu.Lock()
		known := c.known
		c.mu.Unlock()
		if known {
			return nil
		}
		if _, known = c.measure(ctx); known {
			return nil
		}
	}
	return errs.New(errs.Unavailable, "The database's time could not be read.")
}

// newClock returns a clock that follows the machine's until it has measured the database's, which it tries at once.
func newClock(ctx context.Context, read func(context.Context) (measurement, error), log *slog.Logger) *Clock {
	c := &Clock{read: read, log: log, local: time.Now, last: measurement{at: time.Now(), base: machineTime()}}
	for range 3 { // the first answer comes over a new connection, late
		if _, known := c.measure(ctx); !known {
			break
		}
	}
	return c
}

// follow measures the database's clock until ctx ends.
func (c *Clock) follow(ctx context.Context) {
	for next := clockEvery; ; {
		if sleep.For(ctx, next); ctx.Err() != nil {
			return
		}
		next = clockEvery
		if doubt, _ := c.measure(ctx); doubt {
			next = clockAgain
		}
	}
}

// measure asks the database for its time. It reports whether the answer is to be confirmed by another one, and whether
// there was one: without it the clock goes on by the process's own.
func (c *Clock) measure(ctx context.Context) (doubt, known bool) {
	m, err := c.read(ctx)
	if err != nil {
		if ctx.Err() == nil {
			c.log.DebugContext(ctx, "read the database's clock failed", "error", err)
		}
		return false, false
	}
	jump, doubt := c.set(m)
	if jump != 0 {
		c.log.WarnContext(ctx, "the database's clock jumped: all times follow it", "by", jump, "now", m.base)
	}
	return doubt, true
}

// machineClock returns SQLite's time, which is the machine's.
func machineClock(context.Context) (measurement, error) {
	return measurement{at: time.Now(), base: machineTime()}, nil
}

// serverClock returns how PostgreSQL's time is read. The answer is half a round trip old.
func serverClock(pool *sql.DB) func(context.Context) (measurement, error) {
	return func(ctx context.Context) (measurement, error) {
		ctx, cancel := context.WithTimeout(ctx, clockTimeout)
		defer cancel()
		var micros int64
		before := time.Now()
		err := pool.QueryRowContext(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).Scan(&micros)
		if err != nil {
			return measurement{}, Translate(err)
		}
		took := time.Since(before)
		return measurement{before.Add(took / 2), time.UnixMicro(micros).UTC(), took / 2}, nil
	}
}
