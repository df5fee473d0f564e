package supplierauth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"log/slog"
	"slices"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/apikey"
	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/groupcommit"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// A session is a family of refresh tokens (RFC 9700, 4.14.2). Each refresh replaces the current token by the next one,
// in one conditional UPDATE that names the token before. If two callers use the same token, one wins. The other one
// presents a token that is no longer current, like a thief or a client that did not get its answer. This ends the whole
// session.
//
// Concurrent exchanges and refreshes share transactions, as requests do. If a client's answer is lost after the COMMIT,
// it begins a new session with its API key; nothing else is lost.

// A session is the family of refresh tokens that descends from one exchange of an API key.
//
//	             exchange of a valid API key
//	(none) ─────────────────────────────────────▶ active ──┐ refresh with the current token:
//	                                               │ ▲     │ a new pair, the old token is used,
//	                                               │ └─────┘ the 14 days begin again
//	   a used token is refreshed ("reuse")         │
//	   any token of the family is revoked          │
//	   the supplier is deactivated                 │
//	   1,000 newer ones are live                   ▼
//	                                             ended ◀── also by time: no refresh in 14 days
//
// Nothing returns from ended. Access tokens are not part of it: an issued one lives until its own expiry.
//
// Every arrow out of active is one conditional statement on the rows of its families, so that of two callers at once,
// over any number of processes, exactly one wins, and a loser is seen as the reuse that it is. Never read first and
// write then, and never order tokens by time: two rotations may fall into one instant.

// Why a session ended.
const (
	endedByReuse        = "reuse"
	endedByRevoke       = "revoked"
	endedByDeactivation = "deactivated"
	endedByNumber       = "too_many"
)

const (
	writeTimeout = 5 * time.Second  // for what must not stop half way because the caller hung up
	purgeAfter   = 24 * time.Hour   // how long an expired session is kept
	codeClient   = "invalid_client" // specification 7
	codeGrant    = "invalid_grant"  // specification 7
	tokenScheme  = "Bearer"         // TokenType of a pair
)

// refusal is a 401 of the token endpoints with the code that the specification names. There is one text for each code:
// no caller learns which fault it was.
type refusal struct {
	code  string
	cause *errs.Error
}

// Error returns the text for the caller.
func (r *refusal) Error() string { return r.cause.Detail }

// Unwrap shows the kind.
func (r *refusal) Unwrap() error { return r.cause }

// refuseClient answers an API key that belongs to no active supplier.
func refuseClient() error {
	return &refusal{codeClient, errs.New(errs.Unauthenticated, "The API key is missing or invalid.")}
}

// refuseGrant answers a refresh token that is not the current one of a live session, whatever it is instead: a caller
// who guesses learns nothing.
func refuseGrant() error {
	return &refusal{codeGrant, errs.New(errs.Unauthenticated,
		"The refresh token is missing, invalid, expired or already used.")}
}

// supplierKeys returns the form of suppliers' API keys.
func supplierKeys() apikey.Format {
	return apikey.Format{Prefix: "hub_sk_", Domain: "hub/apikey/1\x00"}
}

// TokenPair is the answer of token and refresh (specification 2.1). Lifetimes are seconds.
type TokenPair struct {
	AccessToken      string
	RefreshToken     string
	TokenType        string
	ExpiresIn        int64
	RefreshExpiresIn int64
}

// Exchange begins a session for the holder of an API key. A fault of the rest of the call refuses such a holder.
func (s *Service) Exchange(ctx context.Context, key string, fault error) (*TokenPair, error) {
	format := supplierKeys()
	if !format.Valid(key) {
		return nil, refuseClient()
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	token, hash := newRefreshToken(), format.Hash(key)
	if err := s.admit(fault, func() (string, error) { return s.store.supplierOfKey(ctx, hash[:], s.now()) }); err != nil {
		return nil, err
	}
	g, err := shared(ctx, s.openings, opening{"ses_" + strings.ToLower(rand.Text()), hash[:], token})
	if err != nil {
		return nil, fmt.Errorf("open session: %w", err)
	}
	if g == nil {
		return nil, refuseClient()
	}
	return s.pair(g, token)
}

// refresh rotates a refresh token, or ends the session of one that was used before. A fault of the rest of the call
// refuses a token of a live session, which stays as it is.
func (s *Service) refresh(ctx context.Context, text string, fault error) (*TokenPair, error) {
	presented, ok := parseRefreshToken(text)
	if !ok {
		return nil, refuseGrant()
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := s.admit(fault, func() (string, error) {
		return s.store.supplierOfSession(ctx, presented, s.now())
	}); err != nil {
		return nil, err
	}
	next := presented.successor()
	g, err := shared(ctx, s.rotations, rotation{presented, next})
	if err != nil {
		return nil, fmt.Errorf("rotate refresh token: %w", err)
	}
	if g != nil {
		return s.pair(g, next)
	}
	ended, err := s.store.endReused(ctx, presented, s.now())
	if err != nil {
		return nil, fmt.Errorf("end session of a reused refresh token: %w", err)
	}
	for _, session := range ended {
		s.ended.WithLabelValues(endedByReuse).Inc()
		s.deps.Log.WarnContext(ctx, "a used refresh token was presented, its session is ended",
			"supplier_id", session.SupplierID, "session_id", session.ID)
	}
	return nil, refuseGrant()
}

// revoke ends the session of any token of its family. Unknown tokens are none.
func (s *Service) revoke(ctx context.Context, text string) error {
	presented, ok := parseRefreshToken(text)
	if !ok {
		logctx.Unchanged(ctx)
		return nil
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	ended, err := s.store.endFamily(ctx, presented, s.now())
	if err != nil {
		return fmt.Errorf("revoke session: %w", err)
	}
	ended = slices.DeleteFunc(ended, func(s session) bool { return !s.live })
	if len(ended) == 0 {
		logctx.Unchanged(ctx)
	}
	for _, session := range ended {
		logctx.Note(ctx, slog.String("by", "refresh token"), slog.String("supplier_id", session.SupplierID),
			slog.String("session_id", session.ID))
		s.ended.WithLabelValues(endedByRevoke).Inc()
		_ = s.limiter.allow(session.SupplierID) // counted; a session may always be ended
	}
	return nil
}

// Purge forgets what ended by time more than a day ago: sessions, rotated API keys, rotated webhook secrets.
func (s *Service) Purge(ctx context.Context) error {
	before := s.now().Add(-purgeAfter)
	return errs.Doing("purge", errors.Join(s.store.purgeSessions(ctx, before), s.store.purgeRotated(ctx, before),
		s.store.purgePortal(ctx, s.now())))
}

// pair returns the tokens of a session as they are issued now.
func (s *Service) pair(g *grant, refresh refreshToken) (*TokenPair, error) {
	access, err := s.tokens.issue(*g)
	if err != nil {
		return nil, err
	}
	return &TokenPair{
		AccessToken: access, RefreshToken: refresh.text(), TokenType: tokenScheme,
		ExpiresIn: g.AccessTTL, RefreshExpiresIn: g.RefreshTTL,
	}, nil
}

// detached keeps a write going when its caller hangs up: either state would be right, a cut one costs the session.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}

const (
	refreshPrefix = "hub_rt_"
	handleSize    = 16
	secretSize    = 32
	refreshSize   = handleSize + secretSize + crc32.Size
)

// refreshToken is one of a family: the handle is the family's and stays, the secret is the token's own.
// Only a client that has held a token of the family knows its handle, which is written in no other place; the database
// keeps hashes. So a right handle with any other secret than the current one is a used token.
type refreshToken struct {
	handle [handleSize]byte
	secret [secretSize]byte
}

// newRefreshToken begins a family.
func newRefreshToken() refreshToken {
	var t refreshToken
	rand.Read(t.handle[:]) // never fails: the process ends first
	return t.successor()
}

// successor returns a fresh token of the same family.
func (t refreshToken) successor() refreshToken {
	rand.Read(t.secret[:])
	return t
}

// text returns the token as its holder gets it.
func (t refreshToken) text() string {
	raw := make([]byte, 0, refreshSize)
	raw = append(raw, t.handle[:]...)
	raw = append(raw, t.secret[:]...)
	raw = binary.BigEndian.AppendUint32(raw, crc32.ChecksumIEEE(raw))
	return refreshPrefix + base64.RawURLEncoding.EncodeToString(raw)
}

// parseRefreshToken reads a token's text. There is one spelling of each token; garbage stops here, before the database.
func parseRefreshToken(text string) (refreshToken, bool) {
	var t refreshToken
	if len(text) != len(refreshPrefix)+base64.RawURLEncoding.EncodedLen(refreshSize) ||
		!strings.HasPrefix(text, refreshPrefix) {
		return refreshToken{}, false
	}
	raw, err := base64.RawURLEncoding.DecodeString(text[len(refreshPrefix):])
	if err != nil || len(raw) != refreshSize {
		return refreshToken{}, false
	}
	copy(t.handle[:], raw)
	copy(t.secret[:], raw[handleSize:])
	if t.text() != text { // checksum, and bits or line breaks that the decoder skips
		return refreshToken{}, false
	}
	return t, true
}

// handleHash returns what finds the session; it is the same for all tokens of a family.
func (t refreshToken) handleHash() []byte { return hashOf("hub/refresh-handle/1\x00", t.handle[:]) }

// secretHash returns what only the current token of the family has.
func (t refreshToken) secretHash() []byte { return hashOf("hub/refresh-secret/1\x00", t.secret[:]) }

// hashOf returns what is stored of a random text. It needs no salt and no slow hash: it cannot be guessed.
func hashOf(domain string, value []byte) []byte {
	sum := sha256.Sum256(append([]byte(domain), value...))
	return sum[:]
}

// sessionBatch is how many callers share a transaction.
const sessionBatch = 64

// Close refuses new sessions and rotations, finishes those begun and waits for them.
func (s *Service) Close() {
	s.openings.Close()
	s.rotations.Close()
}

// shared hands an item to a group commit.
func shared[T any](ctx context.Context, batcher *groupcommit.Batcher[T, *grant], item T) (*grant, error) {
	g, err := batcher.Do(ctx, item)
	return g, database.Translate(err) // a batch that does not end in time is a database that does not answer
}

// flushOpenings begins a batch of sessions. It belongs to no single caller, so nothing of its context is used.
func (s *Service) flushOpenings(_ context.Context, items []opening) ([]*grant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	now := s.now()
	grants, err := inTurn(ctx, s.store.db, items,
		func(ctx context.Context, o opening) (*grant, error) { return s.store.open(ctx, o, now) })
	if err == nil {
		s.endOldest(ctx, grants)
	}
	return grants, err
}

// endOldest keeps the suppliers of new sessions, which are committed, to maxSessions: of several processes that begin
// some at once the last one sees all. The next one ends those that it fails to end.
func (s *Service) endOldest(ctx context.Context, opened []*grant) {
	var suppliers []string
	for _, g := range opened {
		if g != nil && !slices.Contains(suppliers, g.SupplierID) {
			suppliers = append(suppliers, g.SupplierID)
		}
	}
	n, err := s.store.endOldest(ctx, suppliers, s.now())
	if err != nil {
		s.deps.Log.WarnContext(ctx, "the oldest sessions of a supplier with too many could not be ended", "error", err)
	}
	s.ended.WithLabelValues(endedByNumber).Add(float64(n))
}

// flushRotations replaces a batch of refresh tokens. On PostgreSQL one without a grant may be held by another
// transaction: it is tried again by itself.
func (s *Service) flushRotations(_ context.Context, items []rotation) ([]*grant, error) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTimeout)
	defer cancel()
	now, alone := s.now(), len(items) == 1
	grants, err := inTurn(ctx, s.store.db, items,
		func(ctx context.Context, r rotation) (*grant, error) { return s.store.rotate(ctx, r, alone, now) })
	if err != nil || alone || s.store.db.Engine() == database.SQLite {
		return grants, err
	}
	var left groupcommit.Undecided
	for i, g := range grants {
		if g == nil {
			left = append(left, i)
		}
	}
	if len(left) > 0 {
		return grants, left
	}
	return grants, nil
}
