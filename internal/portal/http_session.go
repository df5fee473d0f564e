package portal

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/web"
)

// The session's cookie. The prefix keeps other hosts of the same domain from setting the one for https.
const (
	secureCookie = "__Host-supplyhub_portal"
	plainCookie  = "supplyhub_portal" // http on loopback
)

// CreateLink handles POST /api/portal-sessions. It has no body.
func (s *Service) CreateLink(c *gin.Context) error {
	if _, err := httpapi.Query(c); err != nil {
		return err
	}
	ctx := c.Request.Context()
	link, err := NewLink(ctx, s.deps.Sessions, caller.From(ctx).SupplierID, s.address(c.Request))
	if err != nil {
		return err
	}
	c.Header("Cache-Control", "no-store")
	httpapi.JSON(c, http.StatusCreated, link)
	return nil
}

// SignIn handles the link: it is used up, and the browser has a session. Looking at it before a visit does not use it
// up.
func (s *Service) SignIn(c *gin.Context) error {
	if httpapi.IsHead(c) || strings.Contains(c.GetHeader("Sec-Purpose")+c.GetHeader("Purpose"), "prefetch") {
		c.Header("Cache-Control", "no-store")
		c.Status(http.StatusNoContent)
		return nil
	}
	session, err := s.deps.Sessions.OpenPortal(c.Request.Context(), c.Query("token"), s.sessionToken(c.Request))
	if errs.KindOf(err) == errs.Unauthenticated {
		return s.site.Render(c, http.StatusUnauthorized, "signin", web.Page{Data: signedOut{Used: true}})
	}
	if err != nil {
		return err
	}
	setCookie(c, session.Token, session.Secure, int(supplierauth.PortalSessionTTL/time.Second))
	// A strict cookie does not follow a redirect that another site's link began: the page itself leads on then.
	if site := c.GetHeader("Sec-Fetch-Site"); site == "" || site == "none" || site == "same-origin" {
		c.Header("Cache-Control", "no-store")
		c.Header("Referrer-Policy", "no-referrer")
		c.Redirect(http.StatusSeeOther, Base)
		return nil
	}
	c.Header("Refresh", "0; url="+Base)
	return s.site.Render(c, http.StatusOK, "welcome", web.Page{})
}

// SignOut ends the session.
func (s *Service) SignOut(c *gin.Context) error {
	if err := s.deps.Sessions.ClosePortal(c.Request.Context(), s.sessionToken(c.Request)); err != nil {
		return err
	}
	for _, secure := range []bool{true, false} {
		setCookie(c, "", secure, -1)
	}
	s.site.Answer(c, http.StatusOK, web.Outcome{Message: s.site.Text(c, "You are signed out."), Address: Base})
	return nil
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
		return permitted(c, scope)
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

// renderEmpty answers a refusal without a body and without a challenge: there is no scheme to try.
func renderEmpty(c *gin.Context, err error) {
	if kind := errs.KindOf(err); kind == errs.Unauthenticated || kind == errs.Forbidden {
		c.Header("WWW-Authenticate", "Bearer")
		c.AbortWithStatus(httpapi.StatusOf(err))
		return
	}
	httpapi.RenderProblem(c, err)
}

// PageSession lets pass who has a session; others see how to get one.
func (s *Service) PageSession(c *gin.Context) {
	err := s.authenticate(c)
	if err == nil && changes(c.Request) {
		err = web.SameOrigin(c.Request)
	}
	if err == nil {
		return
	}
	c.Abort()
	s.Fail(c, err)
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
	ctx := logctx.With(caller.With(c.Request.Context(), p), slog.String("supplier_id", p.SupplierID))
	c.Request = c.Request.WithContext(ctx)
	return nil
}

func permitted(c *gin.Context, scope string) error {
	if !caller.From(c.Request.Context()).Has(scope) {
		return errs.New(errs.Forbidden, "You do not have the permission "+scope+".")
	}
	return nil
}

func changes(r *http.Request) bool { return r.Method != http.MethodGet && r.Method != http.MethodHead }

// sessionToken returns the cookie's; of two cookies the one for https counts. A cookie that comes twice is none: one of
// them is another one's. So is a cookie without the prefix where a browser would have kept one with it: any host beside
// this one could have set it, to have a person work in another one's session.
func (s *Service) sessionToken(r *http.Request) string {
	names := []string{secureCookie}
	if address, err := url.Parse(s.address(r)); err == nil && plainLoopback(address) {
		names = append(names, plainCookie)
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

func setCookie(c *gin.Context, token string, secure bool, age int) {
	name := plainCookie
	if secure {
		name = secureCookie
	}
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // Secure unless the link is http on loopback
		Name: name, Value: token, Path: "/", MaxAge: age, HttpOnly: true, Secure: secure, SameSite: http.SameSiteStrictMode,
	})
}
