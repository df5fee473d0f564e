package supplierauth

import (
	"context"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// Statements of the portal and of a supplier's own changes. The api's role may update few columns of a supplier, so
// that a fault in the portal cannot give a supplier a scope.

// holdSupplier makes a deactivation wait for this transaction. Errors: errs.NotFound.
func (s store) holdSupplier(ctx context.Context, id string) (active bool, err error) {
	found, err := database.One(ctx, s.db.SQL(ctx), `SELECT active FROM suppliers WHERE id = $1`+s.db.RowLock(` FOR SHARE`),
		[]any{id}, &active)
	return active, unlessFound(found, err)
}

// insertPortalLink stores a link, which expires by itself.
func (s store) insertPortalLink(ctx context.Context, hash []byte, supplierID string, secure bool,
	expires time.Time) error {
	return s.exec(ctx, `INSERT INTO portal_links (supplier_id, hash, secure, expires_at)
		VALUES ($1, $2, $3, $4)`, supplierID, hash, secure, expires.UnixMicro())
}

// portalLinkOwner returns the supplier of a link, used or not; empty for none.
func (s store) portalLinkOwner(ctx context.Context, hash []byte) (id string, err error) {
	_, err = database.One(ctx, s.db.ReaderSQL(ctx), `SELECT supplier_id FROM portal_links WHERE hash = $1`, []any{hash},
		&id)
	return id, err
}

// usePortalLink deletes a live link: of several callers at once, one finds it.
func (s store) usePortalLink(ctx context.Context, hash []byte, now time.Time) (used, secure bool, err error) {
	used, err = database.One(ctx, s.db.SQL(ctx), `DELETE FROM portal_links WHERE hash = $1 AND expires_at > $2
		RETURNING secure`, []any{hash, now.UnixMicro()}, &secure)
	return used, secure, err
}

// insertPortalSession stores a browser session; without a supplier it is one of the console.
func (s store) insertPortalSession(ctx context.Context, hash []byte, supplierID string, now, expires time.Time) error {
	return s.exec(ctx, `INSERT INTO portal_sessions (supplier_id, hash, created_at, expires_at)
		VALUES (nullif(CAST($1 AS text), ''), $2, $3, $4)`, supplierID, hash, now.UnixMicro(), expires.UnixMicro())
}

// consoleSession reports whether there is a live session of the console with the hash.
func (s store) consoleSession(ctx context.Context, hash []byte, now time.Time) (found bool, err error) {
	var expires int64
	return database.One(ctx, s.db.ReaderSQL(ctx), `SELECT expires_at FROM portal_sessions
		WHERE hash = $1 AND expires_at > $2 AND supplier_id IS NULL`, []any{hash, now.UnixMicro()}, &expires)
}

// deletePortalSession ends one browser session; the others of the supplier stay.
func (s store) deletePortalSession(ctx context.Context, hash []byte) error {
	return s.exec(ctx, `DELETE FROM portal_sessions WHERE hash = $1`, hash)
}

// portalPrincipal returns the zero Principal when there is no live session of that hash, or its supplier is
// deactivated.
func (s store) portalPrincipal(ctx context.Context, hash []byte, now time.Time) (caller.Principal, error) {
	p, scopes, expires := caller.Principal{SessionID: portalSessionID}, "", int64(0)
	found, err := database.One(ctx, s.db.ReaderSQL(ctx), `
		SELECT s.id, s.name, s.scopes, p.expires_at FROM portal_sessions p JOIN suppliers s ON s.id = p.supplier_id
		WHERE p.hash = $1 AND p.expires_at > $2 AND s.active`, []any{hash, now.UnixMicro()},
		&p.SupplierID, &p.SupplierName, &scopes, &expires)
	if err != nil || !found {
		return caller.Principal{}, err
	}
	p.Scopes, p.ExpiresAt = strings.Fields(scopes), time.UnixMicro(expires).UTC()
	return p, nil
}

// endPortalSessions ends all browser sessions of a supplier, and the links that would open new ones.
func (s store) endPortalSessions(ctx context.Context, supplierID string) error {
	return s.execEach(ctx, supplierID, `DELETE FROM portal_links WHERE supplier_id = $1`,
		`DELETE FROM portal_sessions WHERE supplier_id = $1`)
}

// purgePortal deletes links and sessions that have expired: there is nothing to know of them.
func (s store) purgePortal(ctx context.Context, before time.Time) error {
	return s.execEach(ctx, before.UnixMicro(), `DELETE FROM portal_links WHERE expires_at < $1`,
		`DELETE FROM portal_sessions WHERE expires_at < $1`)
}

// exec runs a statement, however many rows it changes.
func (s store) exec(ctx context.Context, statement string, args ...any) error {
	_, err := database.Exec(ctx, s.db.SQL(ctx), statement, args...)
	return err
}

// execEach runs statements that have the same parameter.
func (s store) execEach(ctx context.Context, value any, statements ...string) error {
	for _, statement := range statements {
		if err := s.exec(ctx, statement, value); err != nil {
			return err
		}
	}
	return nil
}

// touchSupplier locks the supplier until the transaction ends. The api's rights are enough for it. Errors:
// errs.NotFound.
func (s store) touchSupplier(ctx context.Context, id string, now time.Time) error {
	n, err := database.Exec(ctx, s.db.SQL(ctx), `UPDATE suppliers SET updated_at = $1 WHERE id = $2`, now.UnixMicro(), id)
	return unlessFound(n > 0, err)
}

// setWebhookURL writes nothing else of the supplier: the api may not. One change waits for the other. Errors:
// errs.NotFound.
func (s store) setWebhookURL(ctx context.Context, supplierID, url string, now time.Time) (changed bool, err error) {
	var before string
	found, err := database.One(ctx, s.db.SQL(ctx), `SELECT webhook_url FROM suppliers WHERE id = $1`+
		s.db.RowLock(` FOR NO KEY UPDATE`), []any{supplierID}, &before)
	if err = unlessFound(found, err); err != nil {
		return false, err
	}
	_, err = database.Exec(ctx, s.db.SQL(ctx), `UPDATE suppliers SET webhook_url = $1, updated_at = $2 WHERE id = $3`,
		url, now.UnixMicro(), supplierID)
	return before != url, err
}

// secrets returns those that sign now, the newest first.
func (s store) secrets(ctx context.Context, supplierID string, now time.Time) ([]caller.SecretValidity, error) {
	type row struct {
		made  int64
		until *int64
	}
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `
		SELECT created_at, active_until FROM supplier_webhook_secrets
		WHERE supplier_id = $1 AND (active_until IS NULL OR active_until > $2)
		ORDER BY (active_until IS NULL) DESC, created_at DESC, id`, []any{supplierID, now.UnixMicro()},
		func(r *row) []any { return []any{&r.made, &r.until} })
	return lists.Of(rows, func(r row) caller.SecretValidity {
		return caller.SecretValidity{CreatedAt: time.UnixMicro(r.made).UTC(), ExpiresAt: database.TimeOrNil(r.until)}
	}), err
}
