package materials

import (
	"context"
	"fmt"
	"time"
)

// mostCounted bounds what a gauge reads: it costs the same however much is stored.
const mostCounted = 10_000

// waitingRequests counts by one of the two indexes of what waits: queued, or to be tried again
// later.
const waitingRequests = `SELECT count(*) AS n, min(since) AS since FROM (
	SELECT coalesce(round_at, created_at) AS since FROM material_requests WHERE %[1]s IS NOT NULL ORDER BY %[1]s LIMIT ?) waiting`

// Waiting is what waits for its estimation: how many requests, at most 10,000 are counted, and since when the oldest does.
type Waiting struct {
	Requests int64
	Since    time.Time // zero when nothing waits
}

// Waiting returns what is not yet handed to the sender, by the indexes of just that.
func (s *Service) Waiting(ctx context.Context) (w Waiting, err error) {
	for _, column := range []string{"ticket", "retry_at"} {
		var row struct {
			N     int64
			Since *int64
		}
		if err := s.deps.DB.Reader(ctx).Raw(fmt.Sprintf(waitingRequests, column), mostCounted).Scan(&row).Error; err != nil {
			return Waiting{}, fmt.Errorf("count what waits: %w", err)
		}
		w.Requests += row.N
		if row.Since != nil && (w.Since.IsZero() || time.UnixMicro(*row.Since).Before(w.Since)) {
			w.Since = time.UnixMicro(*row.Since)
		}
	}
	return w, nil
}
