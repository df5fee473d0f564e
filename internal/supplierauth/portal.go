package supplierauth

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// How a supplier gets into the portal: a link with a random text, asked for by the supplier's program or made by the
// operator, works once and for minutes. Using it deletes it, in the transaction that begins the browser's session; of
// two browsers with the same link one gets in. A deactivation ends links and sessions.

// How long a link into the portal waits for its one use, and how long the session lives that it opens.
const (
	portalLinkTTL    = 5 * time.Minute
	PortalSessionTTL = time.Hour
)

const portalSessionID = "portal" // the caller.Principal's session: its own name is a secret

// PortalSession is a new browser session; its Token goes into a cookie.
type PortalSession struct {
	SupplierID string
	Token      string
	Secure     bool // the cookie is for https alone
}

// NewPortalLink returns the token of a link that signs an active supplier in, once. Errors: errs.NotFound,
// errs.Forbidden.
func (s *Service) NewPortalLink(ctx context.Context, supplierID string, secure bool) (
	token string, expires time.Time, err error) {
	token = newPortalToken()
	expires = s.now().UTC().Truncate(time.Microsecond).Add(portalLinkTTL)
	err = s.store.db.InTx(ctx, "make a portal link", func(ctx context.Context) error {
		if err := s.holdActive(ctx, supplierID); err != nil {
			return err
		}
		return s.store.insertPortalLink(ctx, portalHash(token), supplierID, secure, expires)
	})
	return token, expires, errs.Doing("make portal link", err)
}

// OpenPortal exchanges a link's token for a new session and ends the browser's former one, if any. A token that the
// caller brought never becomes a session. Errors: errs.Unauthenticated when the link was used, has expired or never
// was one.
func (s *Service) OpenPortal(ctx context.Context, link, former string) (session PortalSession, err error) {
	ctx, cancel := detached(ctx)
	defer cancel()
	now := s.now()
	session.Token = newPortalToken()
	supplierID, err := s.store.portalLinkOwner(ctx, portalHash(link)) // by itself: strangers' guesses begin no transaction
	if err == nil && supplierID == "" {
		err = usedLink()
	}
	if err != nil {
		return PortalSession{}, fmt.Errorf("open portal session: %w", err)
	}
	err = s.store.db.InTx(ctx, "open a portal session", func(ctx context.Context) error {
		err := s.holdActive(ctx, supplierID) // before the link, as a deactivation does
		if kind := errs.KindOf(err); err != nil && (kind == errs.NotFound || kind == errs.Forbidden) {
			return usedLink()
		}
		if err != nil {
			return err
		}
		used, secure, err := s.store.usePortalLink(ctx, portalHash(link), now)
		if err != nil {
			return err
		}
		if !used {
			return usedLink()
		}
		session.Secure = secure
		if err := s.store.deletePortalSession(ctx, portalHash(former)); err != nil {
			return err
		}
		return s.store.insertPortalSession(ctx, portalHash(session.Token), supplierID, now, now.Add(PortalSessionTTL))
	})
	if err != nil {
		return PortalSession{}, fmt.Errorf("open portal session: %w", err)
	}
	session.SupplierID = supplierID
	logctx.Note(ctx, slog.String("supplier_id", supplierID))
	return session, nil
}

// PortalLinkOwner returns whom a link would sign in, without using it up; empty for none.
func (s *Service) PortalLinkOwner(ctx context.Context, link string) (string, error) {
	owner, err := s.store.portalLinkOwner(ctx, portalHash(link))
	return owner, errs.Doing("look a portal link up", err)
}

// PortalPrincipal returns the supplier of a live session. It counts against the supplier's rate limit.
// Errors: errs.Unauthenticated, errs.Exhausted.
func (s *Service) PortalPrincipal(ctx context.Context, token string) (caller.Principal, error) {
	p, err := s.store.portalPrincipal(ctx, portalHash(token), s.now())
	if err != nil {
		return caller.Principal{}, fmt.Errorf("find portal session: %w", err)
	}
	if p.SupplierID == "" {
		return caller.Principal{}, errs.New(errs.Unauthenticated, "The session has ended.")
	}
	return p, s.limiter.allow(p.SupplierID)
}

// OpenConsole begins a session of the operator's console, known by a text that the caller made.
func (s *Service) OpenConsole(ctx context.Context, text string, ttl time.Duration) error {
	now := s.now()
	return errs.Doing("open console session", s.store.insertPortalSession(ctx, portalHash(text), "", now, now.Add(ttl)))
}

// InConsole reports whether the text is that of a live session of the console.
func (s *Service) InConsole(ctx context.Context, text string) (bool, error) {
	found, err := s.store.consoleSession(ctx, portalHash(text), s.now())
	return found, errs.Doing("find console session", err)
}

// ClosePortal ends a session, of the console too. A text that names no session is fine.
func (s *Service) ClosePortal(ctx context.Context, token string) error {
	ctx, cancel := detached(ctx)
	defer cancel()
	return errs.Doing("close portal session", s.store.deletePortalSession(ctx, portalHash(token)))
}

// holdActive keeps the supplier active until the transaction ends. Errors: errs.NotFound, errs.Forbidden.
func (s *Service) holdActive(ctx context.Context, supplierID string) error {
	active, err := s.store.holdSupplier(ctx, supplierID)
	if err == nil && !active {
		err = errs.New(errs.Forbidden, "The supplier is deactivated.")
	}
	return err
}

// unlessFound returns the error of a search for a supplier by its id: errs.NotFound where there is none.
func unlessFound(found bool, err error) error {
	if err == nil && !found {
		err = errs.New(errs.NotFound, "There is no supplier with this id.")
	}
	return err
}

// usedLink answers a link that was used, has expired or never was one.
func usedLink() error {
	return errs.New(errs.Unauthenticated, "This link was used already, has expired or is incomplete.")
}

// newPortalToken has 130 random bits.
func newPortalToken() string { return strings.ToLower(rand.Text()) }

// portalHash returns what is stored of a link or of a browser's cookie.
func portalHash(token string) []byte { return hashOf("", []byte(token)) }
