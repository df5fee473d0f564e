package work

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// SetBack follows a clock that was set back. It may be repeated.
func (s *Service) SetBack(ctx context.Context) error {
	return s.store.setBack(database.ForMaintenance(ctx), s.deps.Now())
}

// setBack makes estimations that were put off in what is now the future wait from now on, as long as they were to wait.
func (s *store) setBack(ctx context.Context, now time.Time) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE material_requests SET retry_at = $1 + retry_at - updated_at,
		updated_at = $1 WHERE `+s.db.Free("material_requests", "uid", `uid > 0 AND retry_at > $1 AND updated_at > $2`),
		now.UnixMicro(), now.Add(database.ClockApart).UnixMicro())
	if err != nil {
		return fmt.Errorf("have estimations wait from now on: %w", err)
	}
	return nil
}
