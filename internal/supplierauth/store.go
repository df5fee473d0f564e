package supplierauth

import (
	"context"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
)

// purgeBatch is how many rows one statement deletes, so that no writer waits long.
const purgeBatch = 1000

// maxSessions is how many live sessions a supplier may have: one more ends its oldest.
const maxSessions = 1000

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

// ending ends live sessions. Their rows are purged as those that expired at that moment: nothing asks for them any
// more.
const ending = `
	UPDATE sessions SET ended_at = ?, ended_reason = ?, expires_at = ?, expiry_day = ? WHERE ended_at IS NULL `

// ended returns the arguments of ending.
func ended(reason string, now time.Time, more ...any) []any {
	at := now.UnixMicro()
	return append([]any{at, reason, at, at / day}, more...)
}

// endReused ends the live session of the presented token when another token is the current one.
func (s store) endReused(ctx context.Context, presented refreshToken, now time.Time) ([]session, error) {
	var sessions []session
	err := s.db.From(ctx).Raw(ending+`AND handle_hash = ? AND current_hash <> ? AND expires_at > ?
		RETURNING id, supplier_id`,
		ended(endedByReuse, now, presented.handleHash(), presented.secretHash(), now.UnixMicro())...).Scan(&sessions).Error
	return sessions, database.Translate(err)
}

// endFamily ends the session of a token, whichever of the family it is, and returns it.
func (s store) endFamily(ctx context.Context, presented refreshToken, now time.Time) ([]session, error) {
	var sessions []session
	err := s.db.From(ctx).Raw(ending+`AND handle_hash = ? RETURNING id, supplier_id`,
		ended(endedByRevoke, now, presented.handleHash())...).Scan(&sessions).Error
	return sessions, database.Translate(err)
}

// endSessions ends all sessions of a supplier, those in the portal included, and returns how many families of refresh
// tokens. There may be millions of rows: it takes them by batches, each committed by itself.
// whileInactive: it ends none once the supplier is active again.
func (s store) endSessions(ctx context.Context, supplierID, reason string, whileInactive bool, now time.Time) (
	n int64, err error) {
	if err := s.endPortalSessions(ctx, supplierID); err != nil {
		return 0, err
	}
	type begun struct {
		id string
		at int64
	}
	var last begun
	for {
		batch, err := database.Scan(s.db.From(ctx).Raw(`
			SELECT id, created_at FROM sessions WHERE supplier_id = ? AND (created_at, id) > (?, ?)
			ORDER BY created_at, id LIMIT ?`, supplierID, last.at, last.id, purgeBatch),
			func(b *begun) []any { return []any{&b.id, &b.at} })
		if err != nil || len(batch) == 0 {
			return n, database.Translate(err)
		}
		last = batch[len(batch)-1]
		ids := make([]string, len(batch))
		for i, b := range batch {
			ids[i] = b.id
		}
		result := s.db.From(ctx).Exec(ending+`AND id IN ? AND NOT (? AND (SELECT active FROM suppliers WHERE id = ?))`,
			ended(reason, now, ids, whileInactive, supplierID)...)
		if result.Error != nil {
			return n, database.Translate(result.Error)
		}
		n += result.RowsAffected
	}
}

// endOldest ends the sessions of these suppliers beyond their newest maxSessions, by deleting them: they are as unknown
// as any other that is none.
func (s store) endOldest(ctx context.Context, supplierIDs []string, now time.Time) (n int64, err error) {
	for _, id := range supplierIDs {
		var oldest []string
		err := s.db.From(ctx).Raw(`
			SELECT id FROM sessions WHERE supplier_id = ? AND ended_at IS NULL AND expires_at > ?
			ORDER BY created_at DESC, id DESC LIMIT ? OFFSET ?`,
			id, now.UnixMicro(), purgeBatch, maxSessions).Scan(&oldest).Error
		if err != nil {
			return n, database.Translate(err)
		}
		if len(oldest) == 0 {
			continue
		}
		result := s.db.From(ctx).Exec(`DELETE FROM sessions WHERE id IN ?`, oldest)
		if result.Error != nil {
			return n, database.Translate(result.Error)
		}
		n += result.RowsAffected
	}
	return n, nil
}

// supplierOfKey returns the active supplier of an API key; empty: there is none.
func (s store) supplierOfKey(ctx context.Context, hash []byte, now time.Time) (string, error) {
	var ids []string
	err := s.db.From(ctx).Raw(`
		SELECT s.id FROM supplier_api_keys k JOIN suppliers s ON s.id = k.supplier_id
		WHERE k.hash = ? AND (k.active_until IS NULL OR k.active_until > ?) AND s.active`,
		hash, now.UnixMicro()).Scan(&ids).Error
	return strings.Join(ids, ""), database.Translate(err)
}

// supplierOfSession returns the supplier of a token's live session; empty: there is none.
func (s store) supplierOfSession(ctx context.Context, presented refreshToken, now time.Time) (string, error) {
	var ids []string
	err := s.db.From(ctx).Raw(`SELECT supplier_id FROM sessions
		WHERE handle_hash = ? AND ended_at IS NULL AND expires_at > ?`,
		presented.handleHash(), now.UnixMicro()).Scan(&ids).Error
	return strings.Join(ids, ""), database.Translate(err)
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
