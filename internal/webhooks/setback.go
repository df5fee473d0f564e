package webhooks

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

const (
	setBackEvery = time.Second
	setBackTurns = 3 // after a jump: what others wrote at the time before is committed by then
)

// RunSetBack has, until ctx ends, no delivery wait longer for it when the database's clock is set back.
func (d *Dispatcher) RunSetBack(ctx context.Context) {
	ticker := time.NewTicker(setBackEvery)
	defer ticker.Stop()
	jumps, turns := d.deps.DB.ClockJumps(), 0
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if n := d.deps.DB.ClockJumps(); n != jumps {
			jumps, turns = n, setBackTurns
		}
		if turns == 0 {
			continue
		}
		if err := d.setBack(ctx); err != nil {
			if ctx.Err() == nil {
				d.deps.Log.WarnContext(ctx, "deliveries wait by the clock that was set back", "error", err)
			}
			continue
		}
		turns--
	}
}

// setBack has what was written in what is now the future wait from now on, as long as it was to wait then. Every
// process may do it, and again: what is done is of the present.
func (d *Dispatcher) setBack(ctx context.Context) error {
	now := d.deps.Now()
	err := d.deps.DB.InTx(database.ForMaintenance(ctx), "follow a clock that was set back",
		func(ctx context.Context) error { return d.store.setBack(ctx, now) })
	if err == nil {
		d.Wake()
	}
	return err
}
