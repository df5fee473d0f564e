package portal

import (
	"cmp"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/web"
)

// signedOut is the page without a session.
type signedOut struct{ Used bool } // a link was followed that does not work any more

// failure is what the error page says.
type failure struct {
	Status  int
	Message string
}

// Routes adds the assets, which everybody may read.
func (s *Service) Routes(r gin.IRoutes) { s.site.Routes(r) }

// SwitchLanguage is the middleware of the language's links.
func (s *Service) SwitchLanguage(c *gin.Context) { s.site.SwitchLanguage(c) }

// Page makes a gin handler of h, whose errors are shown as a page, or as the outcome of an action.
func (s *Service) Page(h httpapi.Handler) gin.HandlerFunc { return httpapi.HandleWith(h, s.Fail) }

// NotFound shows an unknown address below the portal as a page; next answers all others.
func (s *Service) NotFound(next gin.HandlerFunc) gin.HandlerFunc {
	page := s.Page(func(*gin.Context) error { return errs.New(errs.NotFound, "There is no such resource.") })
	return func(c *gin.Context) {
		if !strings.HasPrefix(c.Request.URL.Path, Base+"/") || changes(c.Request) {
			next(c)
			return
		}
		page(c)
	}
}

// Fail shows an error: to the page's script as an outcome, to a reader as a page.
func (s *Service) Fail(c *gin.Context, err error) {
	httpapi.RetryAfter(c, err)
	status := httpapi.StatusOf(err)
	if status >= http.StatusInternalServerError {
		_ = c.Error(err) // the access log shows it
	}
	if changes(c.Request) {
		if err := s.site.Answer(c, status, web.Outcome{Message: s.explain(c, err)}); err != nil {
			s.Fail(c, err)
		}
		return
	}
	page, view := "error", frame(c, "none", failure{Status: status, Message: s.explain(c, err)})
	if errs.KindOf(err) == errs.Unauthenticated {
		page, view.Data = "signin", signedOut{}
	}
	if err := s.site.Render(c, status, page, view); err != nil {
		httpapi.RenderProblem(c, err)
	}
}

// render answers with a page of the signed-in supplier.
func (s *Service) render(c *gin.Context, page, current string, data any) error {
	return s.site.Render(c, http.StatusOK, page, frame(c, current, data))
}

// frame returns a page with its reader, and the links that the reader's scopes open.
func frame(c *gin.Context, current string, data any) web.Page {
	who := caller.From(c.Request.Context())
	scopes := map[string]string{requestsPath: caller.ScopeMaterialRequests}
	links := []web.Link{{Text: "Overview", Path: ""}, {Text: "Requests", Path: requestsPath},
		{Text: "Deliveries", Path: deliveriesPath}, {Text: "Receiver", Path: receiverPath}}
	return web.Page{Current: current, Who: who.SupplierName, Of: who.SupplierID, Data: data,
		Navigation: slices.DeleteFunc(links, func(l web.Link) bool {
			return !who.Has(cmp.Or(scopes[l.Path], caller.ScopeWebhooks))
		})}
}

// done answers an action with what it came to, unless it failed.
func (s *Service) done(c *gin.Context, err error, text string) error {
	if err == nil {
		err = s.site.Answer(c, http.StatusOK, web.Outcome{Message: s.site.Text(c, text)})
	}
	return err
}

// listing is the way to the other pages of a list: the browser goes back.
type listing struct{ Newest, Next string } // addresses; empty: there is none

// newListing keeps the filters of the address; next is the cursor of the next page.
func newListing(c *gin.Context, next string) (l listing) {
	query := c.Request.URL.Query()
	if query.Get("cursor") != "" {
		query.Del("cursor")
		l.Newest = web.Address(c.Request.URL, query)
	}
	if next != "" {
		query.Set("cursor", next)
		l.Next = web.Address(c.Request.URL, query)
	}
	return l
}

// choice is a link that filters a list.
type choice struct {
	Text, Address string
	Current       bool
}

// choices returns links for the states that a list can have, the empty one first; other filters stay, the cursor does
// not.
func (s *Service) choices(c *gin.Context, states ...string) []choice {
	return lists.Of(states, func(state string) choice {
		query := c.Request.URL.Query()
		query.Del("cursor")
		if query.Del("status"); state != "" {
			query.Set("status", state)
		}
		return choice{s.site.State(c, state), web.Address(c.Request.URL, query), c.Query("status") == state}
	})
}
