package work

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
)

// SetBack follows a clock that was set back. It may be repeated.
func (s *Service) SetBack(ctx context.Context) error {
	return s.store.setBack(database.ForMaintenance(ctx), s.deps.Now())
}

// setBack makes estimations that became due or were put off in what is now the future wait from now on, as long as they
// were to wait.
func (s *store) setBack(ctx context.Context, now time.Time) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE material_requests SET due_at = $1 + due_at - updated_at,
		updated_at = $1 WHERE uid > 0 AND `+s.db.Free("material_requests", "uid",
		`due_at IS NOT NULL AND due_at > $1 AND updated_at > $2`),
		now.UnixMicro(), now.Add(database.ClockApart).UnixMicro())
	return errs.Doing("have estimations wait from now on", err)
}
