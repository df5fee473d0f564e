package portal

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/internal/web"
)

// The session's cookie. The prefix keeps other hosts of the same domain from setting the one for https.
const (
	hostPrefix  = "__Host-"
	plainCookie = "supplyhub_portal" // without the prefix: http on loopback
)

// whoseCookie names whose session the browser has. It is not secret and opens nothing; unlike the session's it comes
// with a link from another site, which must not replace one supplier's session by another's unasked.
const whoseCookie = "supplyhub_signed_in"

// SignIn handles the link: it is used up, and the browser has a session. Only a person's visit uses it up. A program
// that looks at it first, such as a mail scanner, gets a page with a button, and so does a browser with another
// session.
func (s *Service) SignIn(c *gin.Context) error {
	if strings.Contains(c.GetHeader("Sec-Purpose")+c.GetHeader("Purpose"), "prefetch") {
		logctx.Unchanged(c.Request.Context())
		c.Header("Cache-Control", "no-store")
		c.Status(http.StatusNoContent)
		return nil
	}
	c.Header("Referrer-Policy", "no-referrer") // the address has the token
	token := c.Query("token")
	replaces, err := s.replacesAnother(c, token)
	if err != nil {
		return err
	}
	if replaces || httpapi.IsHead(c) || !byPerson(c.Request) {
		logctx.Unchanged(c.Request.Context())
		return s.site.Render(c, http.StatusOK, "confirm", web.Page{Data: confirmation{token, replaces}})
	}
	err = s.open(c, token)
	if errs.KindOf(err) == errs.Unauthenticated {
		return s.site.Render(c, http.StatusUnauthorized, "signin", web.Page{Data: signedOut{Used: true}})
	}
	if err != nil {
		return err
	}
	// A strict cookie does not follow a redirect that another site's link began: the page itself goes on then.
	if site := c.GetHeader("Sec-Fetch-Site"); site == "" || site == "none" || site == "same-origin" {
		c.Header("Cache-Control", "no-store")
		c.Redirect(http.StatusSeeOther, Base)
		return nil
	}
	c.Header("Refresh", "0; url="+Base)
	return s.site.Render(c, http.StatusOK, "welcome", web.Page{})
}

type confirmation struct {
	Token   string
	Another bool // the browser has a session of another supplier
}

// ConfirmSignIn handles the button of that page, with and without its script.
func (s *Service) ConfirmSignIn(c *gin.Context) error {
	byScript := web.SameOrigin(c.Request)
	if site := c.GetHeader("Sec-Fetch-Site"); byScript != nil && site != "" && site != "same-origin" {
		return byScript
	}
	if err := httpapi.ReadForm(c, formBytes); err != nil {
		return err
	}
	err := s.open(c, c.PostForm("token"))
	if byScript != nil && errs.KindOf(err) == errs.Unauthenticated {
		return s.site.Render(c, http.StatusUnauthorized, "signin", web.Page{Data: signedOut{Used: true}})
	}
	if err != nil {
		return err
	}
	if byScript == nil {
		return s.site.Answer(c, http.StatusOK, web.Outcome{Message: s.site.Text(c, "You are signed in"), Address: Base})
	}
	c.Header("Cache-Control", "no-store")
	c.Redirect(http.StatusSeeOther, Base)
	return nil
}

// open uses the link up and gives the browser the session.
func (s *Service) open(c *gin.Context, link string) error {
	ctx := c.Request.Context()
	session, err := s.deps.Sessions.OpenPortal(ctx, link, s.sessionToken(c.Request))
	if err != nil {
		return err
	}
	logctx.KnownBy(ctx, "portal link")
	age := int(supplierauth.PortalSessionTTL / time.Second)
	setCookie(c, plainCookie, session.Token, session.Secure, age, http.SameSiteStrictMode)
	setCookie(c, whoseCookie, session.SupplierID, session.Secure, age, http.SameSiteLaxMode)
	return nil
}

// replacesAnother reports whether the browser has a session of another supplier than the link's.
func (s *Service) replacesAnother(c *gin.Context, link string) (bool, error) {
	whose := s.cookie(c.Request, whoseCookie)
	if whose == "" {
		return false, nil
	}
	owner, err := s.deps.Sessions.PortalLinkOwner(c.Request.Context(), link)
	return owner != "" && owner != whose, err
}

// byPerson reports whether a browser says that the call is its own navigation to a page. Previews and scanners of links
// do not say so, and neither do old browsers: they get a button.
func byPerson(r *http.Request) bool {
	return r.Header.Get("Sec-Fetch-Mode") == "navigate" && r.Header.Get("Sec-Fetch-Dest") == "document"
}

// SignOut ends the session.
func (s *Service) SignOut(c *gin.Context) error {
	if err := s.deps.Sessions.ClosePortal(c.Request.Context(), s.sessionToken(c.Request)); err != nil {
		return err
	}
	for _, secure := range []bool{true, false} {
		setCookie(c, plainCookie, "", secure, -1, http.SameSiteStrictMode)
		setCookie(c, whoseCookie, "", secure, -1, http.SameSiteLaxMode)
	}
	return s.site.Answer(c, http.StatusOK, web.Outcome{Message: s.site.Text(c, "You are signed out."), Address: Base})
}

func setCookie(c *gin.Context, name, value string, secure bool, age int, site http.SameSite) {
	if secure {
		name = hostPrefix + name
	}
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // Secure unless the link is http on loopback
		Name: name, Value: value, Path: "/", MaxAge: age, HttpOnly: true, Secure: secure, SameSite: site,
	})
}
