package database

import (
	"context"
	"sync"
	"time"
)

const (
	clockEvery   = time.Second
	clockAgain   = 100 * time.Millisecond // until the measurement that confirms a jump
	clockHold    = time.Second            // so far a step back is waited out, and none is a jump
	clockRecent  = 10 * time.Second
	clockTimeout = 2 * time.Second
)

// clock follows the database's clock, so that all processes on one database share one time whatever their own clocks
// say: measured each second, and carried on by the process's monotonic clock in between. It goes back only when the
// database's clock was set back, or another server with another clock took over.
type clock struct {
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
func (c *clock) set(m measurement) (jump time.Duration, doubt bool) {
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
func (c *clock) note(now time.Time) {
	if now.After(c.latest) {
		c.latest = now
	}
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.last.then(c.local()); now.After(c.given) || c.given.Sub(now) > clockHold {
		c.given = now
		c.note(now)
	}
	return c.given
}

// elsewhere returns the other time that processes may go by while the clock jumps.
func (c *clock) elsewhere() (time.Time, bool) {
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
// with the database's clock. SQLite's is that of the machine.
func (d *DB) Now() time.Time { return d.clock.now() }

// Latest returns the furthest that Now has been: what another process dated before the clock was set back is not after
// it.
func (d *DB) Latest() time.Time {
	d.clock.now()
	d.clock.mu.Lock()
	defer d.clock.mu.Unlock()
	return d.clock.latest
}

// ClockJumps returns how often the database's clock has jumped while this process followed it.
func (d *DB) ClockJumps() int64 {
	d.clock.mu.Lock()
	defer d.clock.mu.Unlock()
	return d.clock.jumps
}

// NowElsewhere measures the database's clock and returns, while it jumps and for some seconds after, the time that
// other processes may still, or already, go by.
func (d *DB) NowElsewhere(ctx context.Context) (other time.Time, jumping bool) {
	if _, err := d.measureClock(ctx); err != nil {
		d.log.DebugContext(ctx, "read the database's clock failed", "error", err)
	}
	return d.clock.elsewhere()
}

// newDB starts the clock of an opened database.
func newDB(ctx context.Context, d DB) *DB {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var follower sync.WaitGroup
	closeEngine, start := d.close, machineTime()
	d.clock = &clock{local: time.Now, last: measurement{at: time.Now(), base: start}}
	d.close = func() error {
		stop()
		follower.Wait()
		return closeEngine()
	}
	for range 3 { // the first answer comes over a new connection, late
		if _, err := d.measureClock(ctx); err != nil {
			d.log.DebugContext(ctx, "read the database's clock failed", "error", err)
			break
		}
	}
	follower.Go(func() { d.followClock(following) })
	return &d
}

// followClock measures the database's clock until ctx ends.
func (d *DB) followClock(ctx context.Context) {
	timer := time.NewTimer(clockEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		next := clockEvery
		doubt, err := d.measureClock(ctx)
		if err != nil && ctx.Err() == nil {
			d.log.DebugContext(ctx, "read the database's clock failed", "error", err)
		}
		if doubt {
			next = clockAgain
		}
		timer.Reset(next)
	}
}

// measureClock asks the database for its time, and reports whether the answer is to be confirmed by another one.
func (d *DB) measureClock(ctx context.Context) (doubt bool, err error) {
	m, err := d.readClock(ctx)
	if err != nil {
		return false, err
	}
	jump, doubt := d.clock.set(m)
	if jump != 0 {
		d.log.WarnContext(ctx, "the database's clock jumped: all times follow it", "by", jump, "now", m.base)
	}
	return doubt, nil
}

// readClock reads the time. The database's answer is half a round trip old. SQLite's time is the machine's.
func (d *DB) readClock(ctx context.Context) (measurement, error) {
	if d.engine != Postgres {
		return measurement{at: d.clock.local(), base: machineTime()}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	var micros int64
	before := d.clock.local()
	err := d.pool.QueryRowContext(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).Scan(&micros)
	if err != nil {
		return measurement{}, Translate(err)
	}
	took := d.clock.local().Sub(before)
	return measurement{before.Add(took / 2), time.UnixMicro(micros).UTC(), took / 2}, nil
}
