package notify

import (
	"context"
	"math"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// SetBack follows a clock that was set back: events that began in what is now the future cover the minute from now on,
// and none waits longer for its attempt than that. One that was put off for hours is tried early, once, and only where
// this process saw the clock jump: no column says when it was put off. It may be repeated.
func (d *Notifier) SetBack(ctx context.Context) error {
	if d == nil {
		return nil
	}
	now := d.deps.Now()
	return d.deps.DB.InTx(database.ForMaintenance(ctx), "follow a clock that was set back",
		func(ctx context.Context) error { return d.store.setBack(ctx, now) })
}

func (s store) setBack(ctx context.Context, now time.Time) error {
	apart, longest := now.Add(database.ClockApart).UnixMicro(), now.Add(window+settle).UnixMicro()
	late := longest + database.ClockApart.Microseconds()
	if s.db.ClockJumps() == 0 {
		late = math.MaxInt64
	}
	_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE operator_notices SET at = $1 WHERE `+
		s.db.Free("operator_notices", "id", `at > $2`), now.UnixMicro(), apart)
	if err == nil {
		_, err = database.Exec(ctx, s.db.SQL(ctx), `UPDATE operator_events SET at = CASE WHEN at > $1 THEN $1 ELSE at END,
			due_at = CASE WHEN due_at > $2 THEN $2 ELSE due_at END WHERE `+
			s.db.Free("operator_events", "id", `(at > $3 OR due_at > $4)`), now.UnixMicro(), longest, apart, late)
	}
	return errs.Doing("have operator events wait from now on", err)
}
