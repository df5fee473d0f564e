package console

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/web"
)

// View is a page at a path below Base, with the function that reads its data.
type View struct {
	Path string
	page string
	read func(ctx context.Context, q query) (any, error)
}

// API returns the path of the same data as JSON, below /console/api.
func (v View) API() string { return cmp.Or(v.Path, "/overview") }

// current returns the path of the page's entry in the navigation.
func (v View) current() string {
	part, _, _ := strings.Cut(strings.TrimPrefix(v.Path, "/"), "/")
	return strings.TrimSuffix("/"+part, "/")
}

// query is the part of a request that a view reads.
type query struct {
	params gin.Params
	values url.Values
}

// Views returns the pages.
func (s *Service) Views() []View {
	v := &views{s.deps}
	return []View{
		{"", "overview", v.overview}, {"/requests", "requests", v.requests},
		{"/requests/:supplier/:id", "request", v.request},
		{"/deliveries", "deliveries", v.deliveries}, {"/deliveries/:id", "delivery", v.delivery},
		{"/receivers", "receivers", v.receivers}, {"/suppliers", "suppliers", v.suppliers},
		{"/suppliers/:id", "supplier", v.supplier}, {"/rates", "rates", v.rates}, {"/scoreboard", "scoreboard", v.scoreboard},
		{"/trackers", "trackers", v.trackers}, {"/search", "search", v.search},
	}
}

// pageBytes is how much memory a page is counted with while it is made: the largest request has a mebibyte.
const pageBytes = 1 << 20

// Routes adds the assets.
func (s *Service) Routes(r gin.IRoutes) { s.site.Routes(r) }

// SwitchLanguage is the middleware behind the links that change the language.
func (s *Service) SwitchLanguage(c *gin.Context) { s.site.SwitchLanguage(c) }

// Page makes a handler that shows the view.
func (s *Service) Page(v View) gin.HandlerFunc {
	return httpapi.HandleWith(func(c *gin.Context) error {
		data, err := s.data(c, v)
		if err != nil {
			return err
		}
		if found, ok := data.(searchResult); ok && found.Only != "" {
			c.Redirect(http.StatusSeeOther, Base+found.Only)
			return nil
		}
		return s.site.Render(c, http.StatusOK, v.page, s.frame(c, v.current(), data))
	}, s.fail)
}

// JSON makes a handler that answers with the view's data.
func (s *Service) JSON(v View) gin.HandlerFunc {
	return httpapi.Handle(func(c *gin.Context) error {
		data, err := s.data(c, v)
		if err != nil {
			return err
		}
		c.Header("Cache-Control", "no-store")
		return httpapi.JSON(c, http.StatusOK, data)
	})
}

// data reads the view's data. It reads a list once for everyone who asks for the same address. It keeps no view of a
// single thing, which may be large.
func (s *Service) data(c *gin.Context, v View) (any, error) {
	if err := httpapi.Hold(c, pageBytes); err != nil {
		return nil, err
	}
	values, err := httpapi.Query(c)
	if err != nil {
		return nil, err
	}
	if text, _ := url.QueryUnescape(c.Request.URL.RawQuery); !httpapi.IsText(text) { // values go into statements
		return nil, errs.InvalidInput("The address has a filter that cannot be read.")
	}
	q := query{c.Params, values}
	if len(c.Params) > 0 {
		ctx, cancel := context.WithTimeout(c.Request.Context(), readTimeout)
		defer cancel()
		return v.read(ctx, q)
	}
	key := v.page + "?" + q.values.Encode()
	return s.cache.Get(c.Request.Context(), key, func(ctx context.Context) (any, error) { return v.read(ctx, q) })
}

// frame returns the page: its data, and the parts that every page has.
func (s *Service) frame(c *gin.Context, current string, data any) web.Page {
	in, err := s.signedIn(c)
	if err != nil {
		_ = c.Error(err) // the page is still shown
	}
	return web.Page{Current: current, Who: s.site.Text(c, "Operator's console"), NoSession: !in,
		Data: framed{Q: c.Query("q"), View: data, address: c.Request.URL}, Navigation: []web.Link{
			{Text: "Overview", Path: ""}, {Text: "Requests", Path: "/requests"}, {Text: "Deliveries", Path: "/deliveries"},
			{Text: "Receivers", Path: "/receivers"}, {Text: "Suppliers", Path: "/suppliers"},
			{Text: "Rate card", Path: "/rates"}, {Text: "Scoreboard", Path: "/scoreboard"},
			{Text: "Trackers", Path: "/trackers"},
		}}
}

// framed is a page's data, and the address whose query the search field and the filters repeat.
type framed struct {
	Q       string
	View    any
	address *url.URL
}

// With returns the page's own address with one parameter changed, and without cursor and language.
func (f framed) With(name, value string) string {
	query := f.address.Query()
	query.Del("cursor")
	query.Del("lang")
	if query.Del(name); value != "" {
		query.Set(name, value)
	}
	return web.Address(f.address, query)
}

// Is reports whether a parameter has the value.
func (f framed) Is(name, value string) bool { return f.address.Query().Get(name) == value }

// fail shows an error as a page.
func (s *Service) fail(c *gin.Context, err error) {
	httpapi.RetryAfter(c, err)
	status := httpapi.StatusOf(err)
	if renderErr := s.site.Render(c, status, "error",
		s.frame(c, "none", map[string]any{"Status": status, "Message": s.explain(c, err)})); renderErr != nil {
		httpapi.RenderProblem(c, errors.Join(err, renderErr))
	}
}

// refusedByRole is part of PostgreSQL's answer when the role may not run a statement.
const refusedByRole = "SQLSTATE 42501"

// labels returns the names that the forms show for the values in violations.
func labels() map[string]string {
	return map[string]string{
		"name": "Name", "webhook_url": "Receiver's address", "overlap": "The old one works for",
		"receiver_concurrency": "Calls at once",
		"service":              "Service", "carrier": "Carrier", "base-cents": "Base price (cents)",
		"per-kg-cents": "Price per kg (cents)", "minimum-cents": "Lowest price (cents)", "cubage": "Cubage (kg/m³)",
		"max-side": "Largest side (cm)", "max-weight": "Largest weight (kg)", "transit-days": "Transit (business days)",
		"from": "Valid from",
	}
}

// explain returns the error as a text for the reader, with every violation.
func (s *Service) explain(c *gin.Context, err error) string {
	const internal = "This did not work. The api's log says why, under this request's X-Request-Id."
	if strings.Contains(err.Error(), refusedByRole) {
		return s.site.Text(c, "The api's role in the database may not do this. Use the command, or grant it as "+
			"deployments/postgres-roles.sql says.")
	}
	return s.site.Explain(c, err, internal, func(e *errs.Error) string {
		sentences := []string{s.site.Text(c, e.Detail)}
		for _, v := range e.Violations {
			name := v.Place()
			if label := labels()[name]; label != "" {
				name = s.site.Text(c, label)
			}
			sentences = append(sentences, name+" "+s.site.Text(c, v.Detail)+".")
		}
		return strings.Join(sentences, " ")
	})
}
