package supplierauth

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// purgeBatch is how many rows one statement deletes, so that no writer waits long.
const purgeBatch = 1000

// store is the room's tables. Times are Unix microseconds, lifetimes seconds.
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

// returningGrant makes a grant of the written session, in the statement that writes it.
const returningGrant = `
	RETURNING id AS session_id, supplier_id,
		(SELECT s.name FROM suppliers s WHERE s.id = sessions.supplier_id) AS name,
		(SELECT s.scopes FROM suppliers s WHERE s.id = sessions.supplier_id) AS scopes,
		(SELECT s.access_ttl FROM suppliers s WHERE s.id = sessions.supplier_id) AS access_ttl,
		(SELECT s.refresh_ttl FROM suppliers s WHERE s.id = sessions.supplier_id) AS refresh_ttl`

// openSession inserts a session for the active supplier of the key; nil when there is none.
func (s store) openSession(ctx context.Context, id string, keyHash []byte, token refreshToken, now time.Time) (*grant, error) {
	lock := s.db.RowLock(" FOR SHARE OF s") // a deactivation waits, and then ends this session too
	at := now.UnixMicro()
	return s.one(ctx, `
		INSERT INTO sessions (id, supplier_id, handle_hash, current_hash, created_at, last_used_at, expires_at)
		SELECT ?, s.id, ?, ?, ?, ?, ? + s.refresh_ttl * 1000000
		FROM supplier_api_keys k JOIN suppliers s ON s.id = k.supplier_id
		WHERE k.hash = ? AND (k.active_until IS NULL OR k.active_until > ?) AND s.active`+lock+returningGrant,
		id, token.handleHash(), token.secretHash(), at, at, at, keyHash, at)
}

// rotate replaces the presented token by the next one if it is the current one of a live session; nil when it is not.
func (s store) rotate(ctx context.Context, presented, next refreshToken, now time.Time) (*grant, error) {
	at := now.UnixMicro()
	return s.one(ctx, `
		UPDATE sessions SET current_hash = ?, generation = generation + 1, last_used_at = ?,
			expires_at = ? + (SELECT s.refresh_ttl FROM suppliers s WHERE s.id = sessions.supplier_id) * 1000000
		WHERE handle_hash = ? AND current_hash = ? AND ended_at IS NULL AND expires_at > ?
			AND EXISTS (SELECT 1 FROM suppliers s WHERE s.id = sessions.supplier_id AND s.active)`+returningGrant,
		next.secretHash(), at, at, presented.handleHash(), presented.secretHash(), at)
}

// one runs a writing statement that returns at most one grant. It reads to the end: only then is the row committed.
func (s store) one(ctx context.Context, sql string, values ...any) (*grant, error) {
	var grants []grant
	if err := s.db.From(ctx).Raw(sql, values...).Scan(&grants).Error; err != nil {
		return nil, database.Translate(err)
	}
	if len(grants) == 0 {
		return nil, nil //nolint:nilnil // no grant is an answer
	}
	return &grants[0], nil
}

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

// endFamily ends the session of a token, whichever of the family it is. It says how many it ended.
func (s store) endFamily(ctx context.Context, presented refreshToken, now time.Time) (int64, error) {
	result := s.db.From(ctx).Exec(`UPDATE sessions SET ended_at = ?, ended_reason = ? WHERE handle_hash = ? AND ended_at IS NULL`,
		now.UnixMicro(), endedByRevoke, presented.handleHash())
	return result.RowsAffected, database.Translate(result.Error)
}

// endSessions ends all sessions of a supplier.
func (s store) endSessions(ctx context.Context, supplierID string, now time.Time) (int64, error) {
	result := s.db.From(ctx).Exec(`UPDATE sessions SET ended_at = ?, ended_reason = ? WHERE supplier_id = ? AND ended_at IS NULL`,
		now.UnixMicro(), endedByDeactivation, supplierID)
	return result.RowsAffected, database.Translate(result.Error)
}

// purgeSessions deletes sessions that expired before the given time.
func (s store) purgeSessions(ctx context.Context, before time.Time) error {
	for {
		result := s.db.From(ctx).Exec(`
			DELETE FROM sessions WHERE id IN (SELECT id FROM sessions WHERE expires_at < ? ORDER BY expires_at LIMIT ?)`,
			before.UnixMicro(), purgeBatch)
		if result.Error != nil || result.RowsAffected < purgeBatch {
			return database.Translate(result.Error)
		}
	}
}
