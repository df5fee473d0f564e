package supplierauth

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/apikey"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

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
// Every arrow out of active is one conditional UPDATE on the one row of the family, so that of two callers at once,
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

func refuseClient() error {
	return &refusal{codeClient, errs.New(errs.Unauthenticated, "The API key is missing or invalid.")}
}

func refuseGrant() error {
	return &refusal{codeGrant, errs.New(errs.Unauthenticated,
		"The refresh token is missing, invalid, expired or already used.")}
}

// supplierKeys returns the form of suppliers' API keys.
func supplierKeys() apikey.Format {
	return apikey.Format{Prefix: "hub_sk_", Domain: "hub/apikey/1\x00"}
}

// tokenPair is the answer of token and refresh (specification 2.1). Lifetimes are seconds.
type tokenPair struct {
	AccessToken      string
	RefreshToken     string
	TokenType        string
	ExpiresIn        int64
	RefreshExpiresIn int64
}

// exchange begins a session for the holder of an API key.
func (s *Service) exchange(ctx context.Context, key string) (*tokenPair, error) {
	format := supplierKeys()
	if !format.Valid(key) {
		return nil, refuseClient()
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	token, hash := newRefreshToken(), format.Hash(key)
	if err := s.limit(func() (string, error) { return s.store.supplierOfKey(ctx, hash[:], s.now()) }); err != nil {
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

// refresh rotates a refresh token, or ends the session of one that was used before.
func (s *Service) refresh(ctx context.Context, text string) (*tokenPair, error) {
	presented, ok := parseRefreshToken(text)
	if !ok {
		return nil, refuseGrant()
	}
	ctx, cancel := detached(ctx)
	defer cancel()
	if err := s.limit(func() (string, error) { return s.store.supplierOfSession(ctx, presented, s.now()) }); err != nil {
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
		s.log.WarnContext(ctx, "a used refresh token was presented, its session is ended",
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
	if err := errors.Join(s.store.purgeSessions(ctx, before), s.store.purgeRotated(ctx, before),
		s.store.purgePortal(ctx, s.now())); err != nil {
		return fmt.Errorf("purge: %w", err)
	}
	return nil
}

func (s *Service) pair(g *grant, refresh refreshToken) (*tokenPair, error) {
	access, err := s.tokens.issue(*g)
	if err != nil {
		return nil, err
	}
	return &tokenPair{
		AccessToken: access, RefreshToken: refresh.text(), TokenType: tokenScheme,
		ExpiresIn: g.AccessTTL, RefreshExpiresIn: g.RefreshTTL,
	}, nil
}

// detached keeps a write going when its caller hangs up: either state would be right, a cut one costs the session.
func detached(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(ctx), writeTimeout)
}
