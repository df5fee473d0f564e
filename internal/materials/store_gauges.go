package materials

import (
	"context"
	"fmt"
	"time"
)

// mostCounted bounds what a gauge reads: it costs the same however much is stored.
const mostCounted = 10_000

const waitingRequests = `SELECT count(*) AS n, min(created_at) AS since FROM (
	SELECT created_at FROM material_requests WHERE ticket IS NOT NULL ORDER BY ticket LIMIT ?) waiting`

// Waiting is what waits for its estimation: how many requests, at most 10,000 are counted, and since when the oldest does.
type Waiting struct {
	Requests int64
	Since    time.Time // zero when nothing waits
}

// Waiting returns what is not yet handed to the sender, by the index of just that.
func (s *Service) Waiting(ctx context.Context) (Waiting, error) {
	var row struct {
		N     int64
		Since *int64
	}
	err := s.deps.DB.Reader(ctx).Raw(waitingRequests, mostCounted).Scan(&row).Error
	if err != nil {
		return Waiting{}, fmt.Errorf("count what waits: %w", err)
	}
	w := Waiting{Requests: row.N}
	if row.Since != nil {
		w.Since = time.UnixMicro(*row.Since)
	}
	return w, nil
}
