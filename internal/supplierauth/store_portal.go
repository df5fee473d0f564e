package supplierauth

import (
	"context"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
)

// holdSupplier makes a deactivation wait for this transaction.
func (s store) holdSupplier(ctx context.Context, id string) (found, active bool, err error) {
	var rows []bool
	err = s.db.From(ctx).Raw(`SELECT active FROM suppliers WHERE id = ?`+s.db.RowLock(` FOR SHARE`), id).Scan(&rows).Error
	return len(rows) > 0, len(rows) > 0 && rows[0], database.Translate(err)
}

func (s store) insertPortalLink(ctx context.Context, hash []byte, supplierID string, secure bool,
	expires time.Time) error {
	// Not the hash first: gorm spreads the bytes of a value that is right behind a parenthesis.
	return database.Translate(s.db.From(ctx).Exec(`INSERT INTO portal_links (supplier_id, hash, secure, expires_at)
		VALUES (?, ?, ?, ?)`,
		supplierID, hash, secure, expires.UnixMicro()).Error)
}

// portalLinkOwner returns the supplier of a link, used or not; empty for none.
func (s store) portalLinkOwner(ctx context.Context, hash []byte) (string, error) {
	var ids []string
	err := s.db.Reader(ctx).Raw(`SELECT supplier_id FROM portal_links WHERE hash = ?`, hash).Scan(&ids).Error
	if err != nil || len(ids) == 0 {
		return "", database.Translate(err)
	}
	return ids[0], nil
}

// usePortalLink deletes a live link: of several callers at once, one finds it.
func (s store) usePortalLink(ctx context.Context, hash []byte, now time.Time) (used, secure bool, err error) {
	var rows []bool
	err = s.db.From(ctx).Raw(`DELETE FROM portal_links WHERE hash = ? AND expires_at > ? RETURNING secure`, hash,
		now.UnixMicro()).Scan(&rows).Error
	return len(rows) > 0, len(rows) > 0 && rows[0], database.Translate(err)
}

func (s store) insertPortalSession(ctx context.Context, hash []byte, supplierID string, now, expires time.Time) error {
	return database.Translate(s.db.From(ctx).Exec(`INSERT INTO portal_sessions (supplier_id, hash, created_at, expires_at)
		VALUES (?, ?, ?, ?)`,
		supplierID, hash, now.UnixMicro(), expires.UnixMicro()).Error)
}

func (s store) deletePortalSession(ctx context.Context, hash []byte) error {
	return database.Translate(s.db.From(ctx).Exec(`DELETE FROM portal_sessions WHERE hash = ?`, hash).Error)
}

// portalPrincipal returns the zero Principal when there is no live session of that hash, or its supplier is
// deactivated.
func (s store) portalPrincipal(ctx context.Context, hash []byte, now time.Time) (caller.Principal, error) {
	var rows []struct {
		ID, Name, Scopes string
		ExpiresAt        int64
	}
	err := s.db.Reader(ctx).Raw(`
		SELECT s.id, s.name, s.scopes, p.expires_at FROM portal_sessions p JOIN suppliers s ON s.id = p.supplier_id
		WHERE p.hash = ? AND p.expires_at > ? AND s.active`, hash, now.UnixMicro()).Scan(&rows).Error
	if err != nil || len(rows) == 0 {
		return caller.Principal{}, database.Translate(err)
	}
	r := rows[0]
	return caller.Principal{
		SupplierID: r.ID, SupplierName: r.Name, SessionID: portalSessionID, Scopes: strings.Fields(r.Scopes),
		ExpiresAt: time.UnixMicro(r.ExpiresAt).UTC(),
	}, nil
}

// endPortalSessions ends all browser sessions of a supplier, and the links that would open new ones.
func (s store) endPortalSessions(ctx context.Context, supplierID string) error {
	for _, statement := range []string{`DELETE FROM portal_links WHERE supplier_id = ?`,
		`DELETE FROM portal_sessions WHERE supplier_id = ?`} {
		if err := s.db.From(ctx).Exec(statement, supplierID).Error; err != nil {
			return database.Translate(err)
		}
	}
	return nil
}

// purgePortal deletes links and sessions that have expired: there is nothing to know of them.
func (s store) purgePortal(ctx context.Context, before time.Time) error {
	for _, statement := range []string{`DELETE FROM portal_links WHERE expires_at < ?`,
		`DELETE FROM portal_sessions WHERE expires_at < ?`} {
		if err := s.db.From(ctx).Exec(statement, before.UnixMicro()).Error; err != nil {
			return database.Translate(err)
		}
	}
	return nil
}

// touchSupplier holds the supplier until the transaction ends, with no more rights than the api has.
func (s store) touchSupplier(ctx context.Context, id string, now time.Time) (found bool, err error) {
	result := s.db.From(ctx).Exec(`UPDATE suppliers SET updated_at = ? WHERE id = ?`, now.UnixMicro(), id)
	return result.RowsAffected > 0, database.Translate(result.Error)
}

// setWebhookURL writes nothing else of the supplier: the api may not.
func (s store) setWebhookURL(ctx context.Context, supplierID, url string, now time.Time) (found bool, err error) {
	result := s.db.From(ctx).Exec(`UPDATE suppliers SET webhook_url = ?, updated_at = ? WHERE id = ?`, url,
		now.UnixMicro(), supplierID)
	return result.RowsAffected > 0, database.Translate(result.Error)
}

// secrets returns those that sign now, the newest first.
func (s store) secrets(ctx context.Context, supplierID string, now time.Time) ([]caller.SecretValidity, error) {
	var rows []struct {
		CreatedAt   int64
		ActiveUntil *int64
	}
	err := s.db.Reader(ctx).Raw(`
		SELECT created_at, active_until FROM supplier_webhook_secrets
		WHERE supplier_id = ? AND (active_until IS NULL OR active_until > ?)
		ORDER BY (active_until IS NULL) DESC, created_at DESC, id`, supplierID, now.UnixMicro()).Scan(&rows).Error
	secrets := make([]caller.SecretValidity, len(rows))
	for i, row := range rows {
		secrets[i] = caller.SecretValidity{CreatedAt: time.UnixMicro(row.CreatedAt).UTC(), ExpiresAt: timeOrNil(row.ActiveUntil)}
	}
	return secrets, database.Translate(err)
}
