package supplierauth

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// keys returns the API keys that work now, the newest first.
func (s store) keys(ctx context.Context, supplierID string, now time.Time) ([]Key, error) {
	var rows []struct {
		Last4       string
		CreatedAt   int64
		ActiveUntil *int64
	}
	err := s.db.Reader(ctx).Raw(`SELECT last4, created_at, active_until FROM supplier_api_keys
		WHERE supplier_id = ? AND (active_until IS NULL OR active_until > ?) ORDER BY created_at DESC, last4`,
		supplierID, now.UnixMicro()).Scan(&rows).Error
	if err != nil {
		return nil, database.Translate(err)
	}
	keys := make([]Key, len(rows))
	for i, row := range rows {
		keys[i] = Key{row.Last4, time.UnixMicro(row.CreatedAt).UTC(), timeOrNil(row.ActiveUntil)}
	}
	return keys, nil
}

// sessionsOf counts the live ones among the newest mostLooked sessions of the API, and those of the portal. The newest
// are taken first, by their index, and looked at then: sessions that ended stay until they would have expired.
func (s store) sessionsOf(ctx context.Context, supplierID string, now time.Time) (of Sessions, portal int64, err error) {
	var row struct {
		Live, Portal     int64
		Oldest, LastUsed *int64
	}
	err = s.db.Reader(ctx).Raw(`SELECT count(*) AS live, min(created_at) AS oldest, max(last_used_at) AS last_used,
			(SELECT count(*) FROM portal_sessions WHERE supplier_id = ? AND expires_at > ?) AS portal
		FROM (SELECT created_at, last_used_at, ended_at, expires_at FROM sessions WHERE supplier_id = ?
			ORDER BY created_at DESC LIMIT ?) AS newest
		WHERE ended_at IS NULL AND expires_at > ?`,
		supplierID, now.UnixMicro(), supplierID, mostLooked, now.UnixMicro()).Scan(&row).Error
	return Sessions{row.Live, timeOrNil(row.Oldest), timeOrNil(row.LastUsed)}, row.Portal, database.Translate(err)
}

func timeOrNil(micros *int64) *time.Time {
	if micros == nil {
		return nil
	}
	at := time.UnixMicro(*micros).UTC()
	return &at
}
