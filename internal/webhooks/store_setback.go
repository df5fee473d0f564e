package webhooks

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// clockApart is how far the times of two processes may be apart while the database's clock goes well.
const clockApart = time.Second

// setBack makes waiting deliveries that were written after now wait from now on, and has all receivers looked at that
// are due later: it is found out anew when they are. What others are changing is theirs.
func (s *store) setBack(ctx context.Context, now time.Time) error {
	_, err := s.db.SQL(ctx).ExecContext(ctx, `UPDATE webhook_deliveries
		SET next_attempt_at = $1 + next_attempt_at - updated_at, updated_at = $1 WHERE `+s.free("webhook_deliveries", "id",
		`status = 'pending' AND worker IS NULL AND next_attempt_at > $1 AND updated_at > $2`),
		now.UnixMicro(), now.Add(clockApart).UnixMicro())
	if err == nil {
		_, err = s.db.SQL(ctx).ExecContext(ctx, `UPDATE webhook_receivers SET due_at = $1 WHERE `+
			s.free("webhook_receivers", "supplier_id", `due_at > $1`), now.UnixMicro())
	}
	if err != nil {
		return fmt.Errorf("have deliveries wait from now on: %w", database.Translate(err))
	}
	return nil
}

// free returns the condition that a row is one of those and nobody's. SQLite has one writer, and rows on several
// servers are not locked together.
func (s *store) free(table, key, those string) string {
	if !s.postgres() || s.db.Spread() {
		return those
	}
	return key + ` = ANY (ARRAY(SELECT ` + key + ` FROM ` + table + ` WHERE ` + those + ` FOR UPDATE SKIP LOCKED))`
}
