package supplierauth

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// Sessions are the hottest rows of this package: the items of a batch are done in turn in one transaction. A rotation
// skips a session that another transaction holds instead of waiting for it while it holds others, and rotates it by
// itself afterwards. A session that ends is deleted: it is as unknown as any other that is none, and the next ones of
// its supplier need not look past it.

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

// places returns where database.Query reads a grant to.
func (g *grant) places() []any {
	return []any{&g.SessionID, &g.SupplierID, &g.Name, &g.Scopes, &g.AccessTTL, &g.RefreshTTL}
}

// accessTTL returns for how long the access token is valid.
func (g *grant) accessTTL() time.Duration { return time.Duration(g.AccessTTL) * time.Second }

// session names an ended session; it may have expired before.
type session struct {
	ID, SupplierID string
	live           bool
}

// places returns where database.Query reads a session to.
func (s *session) places() []any { return []any{&s.ID, &s.SupplierID, &s.live} }

// endReused ends the live session of the presented token when another token is the current one.
func (s store) endReused(ctx context.Context, presented refreshToken, now time.Time) ([]session, error) {
	return database.Query(ctx, s.db.SQL(ctx), `
		DELETE FROM sessions WHERE handle_hash = $1 AND current_hash <> $2 AND expires_at > $3
		RETURNING id, supplier_id, true`,
		[]any{presented.handleHash(), presented.secretHash(), now.UnixMicro()}, (*session).places)
}

// endFamily ends the session of a token, whichever of the family it is, and returns it.
func (s store) endFamily(ctx context.Context, presented refreshToken, now time.Time) ([]session, error) {
	return database.Query(ctx, s.db.SQL(ctx), `DELETE FROM sessions WHERE handle_hash = $1
		RETURNING id, supplier_id, expires_at > $2`, []any{presented.handleHash(), now.UnixMicro()}, (*session).places)
}

// endSessions ends all sessions of a supplier, those in the portal included, and returns how many families of refresh
// tokens. There may be millions of rows: it takes them by batches, each committed by itself.
// whileInactive: it ends none once the supplier is active again.
func (s store) endSessions(ctx context.Context, supplierID string, whileInactive bool) (n int64, err error) {
	if err := s.endPortalSessions(ctx, supplierID); err != nil {
		return 0, err
	}
	type begun struct {
		id string
		at int64
	}
	var last begun
	for {
		batch, err := database.Query(ctx, s.db.SQL(ctx), `
			SELECT id, created_at FROM sessions WHERE supplier_id = $1 AND (created_at, id) > ($2, $3)
			ORDER BY created_at, id LIMIT $4`, []any{supplierID, last.at, last.id, purgeBatch},
			func(b *begun) []any { return []any{&b.id, &b.at} })
		if err != nil || len(batch) == 0 {
			return n, err
		}
		last = batch[len(batch)-1]
		ids := lists.Of(batch, func(b begun) string { return b.id })
		deleted, err := database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM sessions WHERE `+s.db.AnyOf("id", 1)+`
			AND NOT ($2 AND (SELECT active FROM suppliers WHERE id = $3))`, s.db.Values(ids), whileInactive, supplierID)
		if err != nil {
			return n, err
		}
		n += deleted
	}
}

// endOldest ends the live sessions of these suppliers beyond their newest maxSessions, and returns how many. Those that
// have expired are deleted too, as they are read here: else a supplier with short ones had it read a day of them each
// time. One that is being refreshed stays: it has not expired when its row is free.
func (s store) endOldest(ctx context.Context, supplierIDs []string, now time.Time) (n int64, err error) {
	type row struct {
		id   string
		live int
	}
	for _, id := range supplierIDs {
		found, err := database.Query(ctx, s.db.SQL(ctx), `
			SELECT id, 1 FROM (SELECT id FROM sessions WHERE supplier_id = $1 AND expires_at > $2
				ORDER BY created_at DESC, id DESC LIMIT $3 OFFSET $4) AS oldest
			UNION ALL
			SELECT id, 0 FROM (SELECT id FROM sessions WHERE supplier_id = $1 AND expires_at <= $2 LIMIT $3) AS expired`,
			[]any{id, now.UnixMicro(), purgeBatch, maxSessions}, func(r *row) []any { return []any{&r.id, &r.live} })
		if err != nil {
			return n, err
		}
		var oldest, expired []string
		for _, r := range found {
			if r.live == 1 {
				oldest = append(oldest, r.id)
			} else {
				expired = append(expired, r.id)
			}
		}
		if len(oldest) > 0 {
			deleted, err := database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM sessions WHERE `+s.db.AnyOf("id", 1),
				s.db.Values(oldest))
			if n += deleted; err != nil {
				return n, err
			}
		}
		if len(expired) > 0 {
			if _, err := database.Exec(ctx, s.db.SQL(ctx), `DELETE FROM sessions
				WHERE `+s.db.AnyOf("id", 1)+` AND expires_at <= $2`, s.db.Values(expired), now.UnixMicro()); err != nil {
				return n, err
			}
		}
	}
	return n, nil
}

// supplierOfKey returns the active supplier of an API key; empty: there is none.
func (s store) supplierOfKey(ctx context.Context, hash []byte, now time.Time) (id string, err error) {
	_, err = database.One(ctx, s.db.SQL(ctx), `
		SELECT s.id FROM supplier_api_keys k JOIN suppliers s ON s.id = k.supplier_id
		WHERE k.hash = $1 AND (k.active_until IS NULL OR k.active_until > $2) AND s.active`,
		[]any{hash, now.UnixMicro()}, &id)
	return id, err
}

// supplierOfSession returns the supplier of a live session by its current token; empty: there is none.
func (s store) supplierOfSession(ctx context.Context, presented refreshToken, now time.Time) (id string, err error) {
	_, err = database.One(ctx, s.db.SQL(ctx), `SELECT supplier_id FROM sessions
		WHERE handle_hash = $1 AND current_hash = $2 AND expires_at > $3`,
		[]any{presented.handleHash(), presented.secretHash(), now.UnixMicro()}, &id)
	return id, err
}

// purgeSessions deletes sessions that expired before the given time.
func (s store) purgeSessions(ctx context.Context, before time.Time) error {
	for {
		deleted, err := database.Exec(ctx, s.db.SQL(ctx), `
			DELETE FROM sessions WHERE `+s.db.Chosen("id", `SELECT id FROM sessions WHERE expiry_day <= $1 AND expires_at < $2
				ORDER BY expiry_day LIMIT $3`),
			before.UnixMicro()/day, before.UnixMicro(), purgeBatch)
		if err != nil || deleted < purgeBatch {
			return err
		}
	}
}

// opening is a session that the holder of an API key asks for.
type opening struct {
	id      string
	keyHash []byte
	token   refreshToken
}

// rotation is a refresh token that was presented, and what is to replace it.
type rotation struct{ presented, next refreshToken }

// returningGrant makes a grant of the written session, in the statement that writes it.
const returningGrant = `
	RETURNING id AS session_id, supplier_id,
		(SELECT s.name FROM suppliers s WHERE s.id = sessions.supplier_id) AS name,
		(SELECT s.scopes FROM suppliers s WHERE s.id = sessions.supplier_id) AS scopes,
		(SELECT s.access_ttl FROM suppliers s WHERE s.id = sessions.supplier_id) AS access_ttl,
		(SELECT s.refresh_ttl FROM suppliers s WHERE s.id = sessions.supplier_id) AS refresh_ttl`

// open inserts the session when the key is an active supplier's; nil otherwise. It holds the supplier until the
// transaction ends: a deactivation waits, and then ends this session too.
func (s store) open(ctx context.Context, o opening, now time.Time) (*grant, error) {
	return s.one(ctx, `
		INSERT INTO sessions (id, supplier_id, handle_hash, current_hash, created_at, last_used_at, expires_at, expiry_day)
		SELECT $1, s.id, $2, $3, $4, $4, $4 + s.refresh_ttl * 1000000, ($4 + s.refresh_ttl * 1000000) / $5
		FROM supplier_api_keys k JOIN suppliers s ON s.id = k.supplier_id
		WHERE k.hash = $6 AND (k.active_until IS NULL OR k.active_until > $4) AND s.active`+
		s.db.RowLock(` FOR SHARE OF s`)+returningGrant,
		o.id, o.token.handleHash(), o.token.secretHash(), now.UnixMicro(), int64(day), o.keyHash)
}

// rotate replaces the presented token by the next one; nil when it is not the current one of a live session. Unless it
// is alone in its transaction, it takes a session that another one holds for none: to wait for it while holding others
// could deadlock.
func (s store) rotate(ctx context.Context, r rotation, alone bool, now time.Time) (*grant, error) {
	lock := ` FOR UPDATE`
	if !alone {
		lock += ` SKIP LOCKED`
	}
	return s.one(ctx, `
		UPDATE sessions SET current_hash = $1, generation = generation + 1, last_used_at = $2,
			expires_at = $2 + (SELECT s.refresh_ttl FROM suppliers s WHERE s.id = sessions.supplier_id) * 1000000,
			expiry_day = ($2 + (SELECT s.refresh_ttl FROM suppliers s WHERE s.id = sessions.supplier_id) * 1000000) / $3
		WHERE id = (SELECT id FROM sessions
				WHERE handle_hash = $4 AND current_hash = $5 AND expires_at > $2`+s.db.RowLock(lock)+`)
			AND EXISTS (SELECT 1 FROM suppliers s WHERE s.id = sessions.supplier_id AND s.active)`+returningGrant,
		r.next.secretHash(), now.UnixMicro(), int64(day), r.presented.handleHash(), r.presented.secretHash())
}

// one runs a writing statement that returns at most one grant. It reads to the end: only then is the row committed.
func (s store) one(ctx context.Context, sql string, values ...any) (*grant, error) {
	grants, err := database.Query(ctx, s.db.SQL(ctx), sql, values, (*grant).places)
	if err != nil || len(grants) == 0 {
		return nil, err // no grant is an answer
	}
	return &grants[0], nil
}

// inTurn does the items one after the other in one transaction.
func inTurn[T any](ctx context.Context, db *database.DB, items []T,
	do func(context.Context, T) (*grant, error)) ([]*grant, error) {
	grants := make([]*grant, len(items))
	err := db.InTx(ctx, "change sessions", func(ctx context.Context) (err error) {
		for i, item := range items {
			if grants[i], err = do(ctx, item); err != nil {
				return err
			}
		}
		return nil
	})
	return grants, err
}
