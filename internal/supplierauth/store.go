package supplierauth

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// purgeBatch is how many rows one statement deletes, so that no writer waits long.
const purgeBatch = 1000

// day is one in microseconds.
const day = 86_400_000_000

// store is the package's tables. Times are Unix microseconds, lifetimes seconds.
type store struct{ db *database.DB }

// grant is what a token pair is made from: the session and its supplier as they are now.
type grant struct {
	SessionID  string
	SupplierID string
	Name       string
	Scopes     string
	AccessTTL  int64
	RefreshTTL int64
}

func (g grant) accessTTL() time.Duration { return time.Duration(g.AccessTTL) * time.Second }

// session names an ended session.
type session struct{ ID, SupplierID string }

// endReused ends the live session of the presented token when another token is the current one.
func (s store) endReused(ctx context.Context, presented refreshToken, now time.Time) ([]session, error) {
	var ended []session
	err := s.db.From(ctx).Raw(`
		UPDATE sessions SET ended_at = ?, ended_reason = ?
		WHERE handle_hash = ? AND current_hash <> ? AND ended_at IS NULL AND expires_at > ?
		RETURNING id, supplier_id`,
		now.UnixMicro(), endedByReuse, presented.handleHash(), presented.secretHash(), now.UnixMicro()).Scan(&ended).Error
	return ended, database.Translate(err)
}

// endFamily ends the session of a token, whichever of the family it is, and returns how many it ended.
func (s store) endFamily(ctx context.Context, presented refreshToken, now time.Time) (int64, error) {
	result := s.db.From(ctx).Exec(`UPDATE sessions SET ended_at = ?, ended_reason = ?
		WHERE handle_hash = ? AND ended_at IS NULL`,
		now.UnixMicro(), endedByRevoke, presented.handleHash())
	return result.RowsAffected, database.Translate(result.Error)
}

// endSessions ends all sessions of a supplier, those in the portal included, and returns how many families of refresh
// tokens.
func (s store) endSessions(ctx context.Context, supplierID, reason string, now time.Time) (int64, error) {
	if err := s.endPortalSessions(ctx, supplierID); err != nil {
		return 0, err
	}
	result := s.db.From(ctx).Exec(`UPDATE sessions SET ended_at = ?, ended_reason = ?
		WHERE supplier_id = ? AND ended_at IS NULL`,
		now.UnixMicro(), reason, supplierID)
	return result.RowsAffected, database.Translate(result.Error)
}

// purgeSessions deletes sessions that expired before the given time.
func (s store) purgeSessions(ctx context.Context, before time.Time) error {
	for {
		result := s.db.From(ctx).Exec(`
			DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expiry_day <= ? AND expires_at < ?
				ORDER BY expiry_day LIMIT ?)`,
			before.UnixMicro()/day, before.UnixMicro(), purgeBatch)
		if result.Error != nil || result.RowsAffected < purgeBatch {
			return database.Translate(result.Error)
		}
	}
}
