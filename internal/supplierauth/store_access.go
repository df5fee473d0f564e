package supplierauth

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// keys returns the API keys that work now, the newest first.
func (s store) keys(ctx context.Context, supplierID string, now time.Time) ([]Key, error) {
	type row struct {
		last4       string
		createdAt   int64
		activeUntil *int64
	}
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT last4, created_at, active_until FROM supplier_api_keys
		WHERE supplier_id = $1 AND (active_until IS NULL OR active_until > $2) ORDER BY created_at DESC, last4`,
		[]any{supplierID, now.UnixMicro()}, func(r *row) []any { return []any{&r.last4, &r.createdAt, &r.activeUntil} })
	return lists.Of(rows, func(r row) Key {
		return Key{r.last4, time.UnixMicro(r.createdAt).UTC(), database.TimeOrNil(r.activeUntil)}
	}), err
}

// sessionsOf counts the live ones among the newest mostLooked sessions of the API, and those of the portal. The newest
// are taken first, by their index, and looked at then: sessions that expired stay until they are purged.
func (s store) sessionsOf(ctx context.Context, supplierID string, now time.Time) (
	of Sessions, portal int64, err error) {
	var live int64
	var oldest, lastUsed *int64
	_, err = database.One(ctx, s.db.ReaderSQL(ctx), `SELECT count(*), min(created_at), max(last_used_at),
			(SELECT count(*) FROM portal_sessions WHERE supplier_id = $1 AND expires_at > $2)
		FROM (SELECT created_at, last_used_at, expires_at FROM sessions WHERE supplier_id = $1
			ORDER BY created_at DESC LIMIT $3) AS newest
		WHERE expires_at > $2`,
		[]any{supplierID, now.UnixMicro(), mostLooked}, &live, &oldest, &lastUsed, &portal)
	return Sessions{live, database.TimeOrNil(oldest), database.TimeOrNil(lastUsed)}, portal, err
}
