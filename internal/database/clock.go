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

// clock follows the database's clock, so that all processes on one database share one time whatever their own clocks say:
// measured again and again, carried on by the process's monotonic clock in between, and never going back.
type clock struct {
	mu    sync.Mutex
	local func() time.Time // monotonic
	at    time.Time        // local, of the last measurement
	base  time.Time        // the database's time then
	last  time.Time        // that was given out
}

// set records that the database's clock stood at base when the local one stood at at.
func (c *clock) set(at, base time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at, c.base = at, base
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.base.Add(c.local().Sub(c.at)); now.After(c.last) {
		c.last = now
	}
	return c.last
}

// Now is the database's time, UTC, and never goes back. SQLite's is that of the machine.
func (d *DB) Now() time.Time { return d.clock.now() }

// newDB starts the clock of an opened database.
func newDB(ctx context.Context, d DB) *DB {
	following, stop := context.WithCancel(context.WithoutCancel(ctx))
	var follower sync.WaitGroup
	closeEngine, start := d.close, machineTime()
	d.clock = &clock{local: machineTime, at: start, base: start.Round(0).UTC()}
	d.close = func() error {
		stop()
		follower.Wait()
		return closeEngine()
	}
	if err := d.measureClock(ctx); err != nil {
		d.log.DebugContext(ctx, "read the database's clock failed", "error", err)
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
		d.clock.set(now, now.Round(0).UTC())
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
	d.clock.set(before.Add(took/2), time.UnixMicro(micros).UTC())
	return nil
}
