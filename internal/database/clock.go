package database

import (
	"context"
	"sync"
	"time"
)

const (
	clockEvery   = 5 * time.Second
	clockTimeout = 2 * time.Second
)

// clock follows the database's clock, so that all processes on one database share one time whatever their own clocks
// say: measured again and again, carried on by the process's monotonic clock in between, and never going back.
type clock struct {
	mu    sync.Mutex
	local func() time.Time // monotonic
	at    time.Time        // local, of the last measurement
	base  time.Time        // the database's time then
	off   time.Duration    // how far base may be off
	known bool             // whether there was a measurement
	last  time.Time        // that was given out
}

// drift is how much a machine's clock may go wrong, as a part of the time that passes.
const drift = 5000

// set records that the database's clock was at base, give or take off, when the local one was at at. A measurement that
// agrees with what is known and is less exact is dropped.
func (c *clock) set(at, base time.Time, off time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	passed := at.Sub(c.at)
	grown := c.off + passed/drift
	if agrees := base.Sub(c.base.Add(passed)).Abs() <= grown+off; c.known && agrees && off > grown {
		return
	}
	c.at, c.base, c.off, c.known = at, base, off, true
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.base.Add(c.local().Sub(c.at)); now.After(c.last) {
		c.last = now
	}
	return c.last
}

// Now returns the database's time, UTC, and never goes back. SQLite's is that of the machine.
func (d *DB) Now() time.Time { return d.clock.now() }

// newDB starts the clock of an opened database.
func newDB(ctx context.Context, d DB) *DB {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var follower sync.WaitGroup
	closeEngine, start := d.close, machineTime()
	d.lean = &lean{}
	d.clock = &clock{local: machineTime, at: start, base: start.Round(0).UTC()}
	d.close = func() error {
		stop()
		follower.Wait()
		return closeEngine()
	}
	for range 3 { // the first answer comes over a new connection, late
		if err := d.measureClock(ctx); err != nil {
			d.log.DebugContext(ctx, "read the database's clock failed", "error", err)
			break
		}
	}
	follower.Go(func() { d.followClock(following) })
	return &d
}

// followClock measures the database's clock until ctx ends.
func (d *DB) followClock(ctx context.Context) {
	ticker := time.NewTicker(clockEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if err := d.measureClock(ctx); err != nil && ctx.Err() == nil {
			d.log.DebugContext(ctx, "read the database's clock failed", "error", err)
		}
	}
}

// measureClock asks the database for its time. The answer is half a round trip old. SQLite's time is the machine's.
func (d *DB) measureClock(ctx context.Context) error {
	if d.engine != Postgres {
		now := d.clock.local()
		d.clock.set(now, now.Round(0).UTC(), 0)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, clockTimeout)
	defer cancel()
	var micros int64
	before := d.clock.local()
	err := d.pool.QueryRowContext(ctx, `SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::bigint`).Scan(&micros)
	if err != nil {
		return Translate(err)
	}
	took := d.clock.local().Sub(before)
	d.clock.set(before.Add(took/2), time.UnixMicro(micros).UTC(), took/2)
	return nil
}
