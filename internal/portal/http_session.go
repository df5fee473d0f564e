package portal

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/url"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/web"
)

// CreateLink handles POST /api/portal-sessions. It has no body.
func (s *Service) CreateLink(c *gin.Context) error {
	ctx := c.Request.Context()
	link, err := NewLink(ctx, s.deps.Sessions, caller.From(ctx).SupplierID, s.address(c.Request))
	if err != nil {
		return err
	}
	c.Header("Cache-Control", "no-store")
	return httpapi.JSON(c, http.StatusCreated, link)
}

// APISession lets pass who has an access token with the scope or, without a token, a portal session; one that changes
// something must come from the page itself. Refusals have an empty body, as those of access tokens.
func (s *Service) APISession(scope string) gin.HandlerFunc {
	bearer := s.deps.Bearer(scope)
	session := httpapi.HandleWith(func(c *gin.Context) error {
		if err := s.authenticate(c); err != nil {
			return err
		}
		if changes(c.Request) {
			if err := web.SameOrigin(c.Request); err != nil {
				return err
			}
		}
		if err := permitted(c, scope); err != nil {
			return err
		}
		return httpapi.Proper(c) // as Bearer does
	}, renderEmpty)
	return func(c *gin.Context) {
		if len(c.Request.Header.Values("Authorization")) > 0 || s.sessionToken(c.Request) == "" {
			bearer(c)
			return
		}
		c.Header("Cache-Control", "no-store") // unlike an Authorization header, a cookie keeps no cache from storing
		session(c)
	}
}

// renderEmpty answers a refusal without a body, as Bearer does.
func renderEmpty(c *gin.Context, err error) {
	if kind := errs.KindOf(err); kind == errs.Unauthenticated || kind == errs.Forbidden {
		c.Header("WWW-Authenticate", "Bearer")
		c.AbortWithStatus(httpapi.StatusOf(err))
		return
	}
	httpapi.RenderProblem(c, err)
}

// pageBytes is what a page holds while it is made; lists have overviews.
const pageBytes = 256 << 10

// PageSession lets pass who has a session and the scope, "" for none; others see how to get one.
func (s *Service) PageSession(scope string) gin.HandlerFunc {
	return s.Page(func(c *gin.Context) error {
		if err := s.authenticate(c); err != nil {
			return err
		}
		if changes(c.Request) {
			if err := web.SameOrigin(c.Request); err != nil {
				return err
			}
			if err := web.SameSupplier(c.Request, caller.From(c.Request.Context()).SupplierID); err != nil {
				return err
			}
		}
		if err := permitted(c, scope); err != nil {
			return err
		}
		if err := httpapi.Proper(c); err != nil {
			return err
		}
		if changes(c.Request) {
			return httpapi.ReadForm(c, formBytes)
		}
		return httpapi.Hold(c, pageBytes)
	})
}

// authenticate puts the session's supplier into the request's context.
func (s *Service) authenticate(c *gin.Context) error {
	token := s.sessionToken(c.Request)
	if token == "" {
		return errs.New(errs.Unauthenticated, "There is no session.")
	}
	p, err := s.deps.Sessions.PortalPrincipal(c.Request.Context(), token)
	if err != nil {
		return err
	}
	httpapi.Known(c, p.SupplierID)
	ctx := logctx.With(caller.With(c.Request.Context(), p), slog.String("supplier_id", p.SupplierID))
	c.Request = c.Request.WithContext(ctx)
	logctx.KnownBy(ctx, "portal session")
	return nil
}

func permitted(c *gin.Context, scope string) error {
	if scope != "" && !caller.From(c.Request.Context()).Has(scope) {
		return errs.New(errs.Forbidden, "You do not have the permission "+scope+".")
	}
	return nil
}

func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// sessionToken returns the cookie's; of two cookies the one for https counts. A cookie that comes twice is none: one of
// them is another one's. So is a cookie without the prefix where a browser would have kept one with it: any host near
// this one could have set it, to have a person work in another one's session.
func (s *Service) sessionToken(r *http.Request) string { return s.cookie(r, plainCookie) }

func (s *Service) cookie(r *http.Request, name string) string {
	names := []string{hostPrefix + name}
	if address, err := url.Parse(s.address(r)); err == nil && plainLoopback(address) {
		names = append(names, name)
	}
	for _, name := range names {
		switch cookies := r.CookiesNamed(name); len(cookies) {
		case 0:
		case 1:
			return cookies[0].Value
		default:
			return ""
		}
	}
	return ""
}

// address returns where the browser finds this service.
func (s *Service) address(r *http.Request) string { return cmp.Or(s.deps.PublicURL, "http://"+r.Host) }
