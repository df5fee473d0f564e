package database

import (
	"context"
	"time"
)

const (
	yieldAfter = 50 * time.Millisecond  // of writing
	yieldFor   = 150 * time.Millisecond // longer than what waits for SQLite's lock sleeps between two looks
)

// Yield lets other processes write between two transactions of a long command, which has written since the given time
// (zero: it just began), and returns since when it does now. SQLite wakes none that waits: each looks now and then, and
// would find the next transaction under way. PostgreSQL has no need of it.
func (d *DB) Yield(ctx context.Context, since time.Time) time.Time {
	switch {
	case since.IsZero():
		return time.Now()
	case d.Engine() != SQLite || time.Since(since) < yieldAfter:
		return since
	}
	select {
	case <-ctx.Done():
	case <-time.After(yieldFor):
	}
	return time.Now()
}
