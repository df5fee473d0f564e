package sending

import (
	"context"
	"errors"
	"time"
)

// The database's clock may be set back: by an operator, or by a failover to a server whose clock is behind. Package
// database notices a jump within a second. Rows that were written before it then wait too long. Each package knows its
// own; a test in package app lists all columns that hold a time.

const (
	setBackEvery = time.Second
	setBackTurns = 3 // after a jump or a start: others' locks have ended and their writes are committed by then
)

// RunSetBack has, until ctx ends, nothing wait longer for it when the database's clock is set back: no delivery, and
// nothing of what others know of. Every worker runs it, and begins with it: the clock may have been set back while none
// was alive. It is idempotent, and skips what another transaction has locked. An error is tried again a second later,
// as long as it takes: turns counts only the runs that succeeded.
func (d *Dispatcher) RunSetBack(ctx context.Context, others ...func(context.Context) error) {
	ticker := time.NewTicker(setBackEvery)
	defer ticker.Stop()
	jumps, turns := d.deps.DB.ClockJumps(), setBackTurns
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n := d.deps.DB.ClockJumps(); n != jumps {
			jumps, turns = n, setBackTurns
		}
		if turns == 0 || d.deps.DB.Known(ctx) != nil { // the machine's clock says nothing about what is stored
			continue
		}
		err := d.SetBack(ctx)
		for _, other := range others {
			err = errors.Join(err, other(ctx))
		}
		if err != nil {
			if ctx.Err() == nil {
				d.deps.Log.WarnContext(ctx, "something waits by the clock that was set back", "error", err)
			}
			continue
		}
		d.Wake()
		turns--
	}
}
