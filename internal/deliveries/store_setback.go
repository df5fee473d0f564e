package deliveries

import (
	"context"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// Following a clock that was set back. Every stored time is the database's, so a delivery that was to wait a minute
// would wait an hour longer after the clock went an hour back. A delivery that was written "in the future" is known by
// its updated_at, which is later than now. It waits from now on instead, as long as it was to wait. Nothing is begun or
// ended here.

// clockApart is how far the times of two processes may be apart while the database's clock goes well.
const clockApart = database.ClockApart

// SetBack makes waiting deliveries that were written after now wait from now on, as long as they were to wait, and has
// those receivers looked at that are due later than the first of them. Every process may do it, and again: rows already
// done have times of the present. Rows that others are changing are theirs: such a row is written with a time of the
// present, or is found by the next of the workers' runs. Workers call it for some seconds after their start, and after
// the clock went back; one that dies in between leaves the rest to the others, as each of them saw the jump.
func (d *Keeper) SetBack(ctx context.Context) error {
	now, db, together := d.deps.Now(), d.deps.DB, ``
	if db.Spread() {
		together = ` AND d.supplier_id = webhook_receivers.supplier_id` // on one server
	}
	err := db.InTx(database.ForMaintenance(ctx), "follow a clock that was set back", func(ctx context.Context) error {
		for _, change := range []struct{ table, key, set, those string }{
			{"webhook_deliveries", "id", `next_attempt_at = $1 + next_attempt_at - updated_at, updated_at = $1`,
				`status = 'pending' AND worker IS NULL AND next_attempt_at > $1 AND updated_at > $2`},
			{"webhook_receivers", "supplier_id", `due_at = $1`,
				`due_at > $2 AND (catch_up_to IS NOT NULL OR due_at > ` + front(together) + `)`},
		} {
			_, err := database.Exec(ctx, db.SQL(ctx), `UPDATE `+change.table+` SET `+change.set+` WHERE `+
				db.Free(change.table, change.key, change.those), now.UnixMicro(), now.Add(clockApart).UnixMicro())
			if err != nil {
				return err
			}
		}
		return nil
	})
	return errs.Doing("have deliveries wait from now on", err)
}
