package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// waitingLooked bounds the look for the oldest request that waits: they are in the order in which they are queued.
const waitingLooked = 10_000

// waitingSince goes by one of the two indexes of what waits: queued, or to be tried again later.
const waitingSince = `SELECT min(since) FROM (
	SELECT coalesce(round_at, created_at) AS since FROM material_requests WHERE %[1]s IS NOT NULL
	ORDER BY %[1]s LIMIT ?) waiting`

// WaitingSince returns since when the oldest request waits that is not yet handed to the sender; the zero time when
// none does.
func (s *Service) WaitingSince(ctx context.Context) (oldest time.Time, err error) {
	for _, column := range []string{"ticket", "retry_at"} {
		var micros *int64
		if err := s.deps.DB.Reader(ctx).Raw(fmt.Sprintf(waitingSince, column),
			waitingLooked).Scan(&micros).Error; err != nil {
			return time.Time{}, fmt.Errorf("look for the oldest waiting request: %w", database.Translate(err))
		}
		if micros == nil {
			continue
		}
		if since := time.UnixMicro(*micros); oldest.IsZero() || since.Before(oldest) {
			oldest = since
		}
	}
	return oldest, nil
}
