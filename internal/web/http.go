package web

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"

	"github.com/gin-gonic/gin"
	"golang.org/x/text/language"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

const (
	// requestHeader is what the pages' script sends with every action: no form and no script of another site can.
	requestHeader = "X-Page-Request"
	ofHeader      = "X-Page-Of" // the supplier whose page has sent it

	languageCookie = "supplyhub_language"
	languageAge    = 365 * 24 * 60 * 60 // seconds

	// policy lets a page load its own files and nothing else.
	policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)

// Page is what a page shows.
type Page struct {
	Current    string // path of its entry in the navigation, or ""
	Navigation []Link // the pages that the reader may open
	Who        string // who is signed in; empty: no session
	Of         string // the supplier's id; the script sends it with each action
	Data       any    // the page's own

	NoSession bool // there is nothing to sign out of
}

// view is what the layout sees.
type view struct {
	Page
	Title     string
	Lang      string
	Base      string
	SignOut   string
	Languages []languageLink
}

type languageLink struct {
	Tag, Name, Address string
	Current            bool
}

// Routes adds the assets below the site's base.
func (s *Site) Routes(r gin.IRoutes) { r.GET(s.cfg.Base+"/assets/:sum/:file", httpapi.Handle(s.asset)) }

func (s *Site) asset(c *gin.Context) error {
	file, ok := s.assets.files[c.Param("file")]
	if !ok || file.sum != c.Param("sum") {
		return errs.New(errs.NotFound, "There is no such resource.")
	}
	secure(c)
	c.Header("Cache-Control", "public, max-age=31536000, immutable")
	httpapi.Shared(c, http.StatusOK, file.contentType, file.content)
	return nil
}

// secure sets the headers that every answer of a site has.
func secure(c *gin.Context) {
	c.Header("Content-Security-Policy", policy)
	c.Header("X-Content-Type-Options", "nosniff")
	if c.Writer.Header().Get("Referrer-Policy") == "" { // a page whose address is a secret has its own
		c.Header("Referrer-Policy", "same-origin")
	}
	c.Header("Cross-Origin-Opener-Policy", "same-origin")
	c.Header("Cross-Origin-Resource-Policy", "same-origin")
}

// challenge names the scheme that a program may use in place of a session.
func challenge(c *gin.Context, status int) {
	if status == http.StatusUnauthorized {
		c.Header("WWW-Authenticate", "Bearer")
	}
}

// locale returns the reader's language: the one chosen on the page, or the best of Accept-Language.
func (s *Site) locale(r *http.Request) *locale {
	if cookie, err := r.Cookie(languageCookie); err == nil && s.index(cookie.Value) >= 0 {
		return s.languages[s.index(cookie.Value)]
	}
	tags, _, _ := language.ParseAcceptLanguage(r.Header.Get("Accept-Language")) // none: the first language
	_, index, _ := s.matcher.Match(tags...)
	return s.languages[index]
}

// index returns the place of a language; -1: there is none of this tag.
func (s *Site) index(tag string) int {
	return slices.IndexFunc(s.languages, func(l *locale) bool { return l.tag == tag })
}

// SwitchLanguage is a middleware: ?lang=pt keeps the choice in a cookie and redirects to the page without it. The page
// refuses a query that does not parse.
func (s *Site) SwitchLanguage(c *gin.Context) {
	query, err := httpapi.Query(c)
	tag := query.Get("lang")
	if err != nil || s.index(tag) < 0 || c.Request.Method != http.MethodGet {
		return
	}
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // a preference, not a secret: it may travel over plain HTTP
		Name: languageCookie, Value: tag, Path: s.cfg.Base, MaxAge: languageAge, HttpOnly: true,
		SameSite: http.SameSiteLaxMode,
	})
	query.Del("lang")
	secure(c)
	c.Redirect(http.StatusSeeOther, Address(c.Request.URL, query))
	c.Abort()
}

// Address returns the address of a page with another query. Its path is as it was spelled: a browser reads a decoded
// one as another one.
func Address(page *url.URL, query url.Values) string {
	if len(query) == 0 {
		return page.EscapedPath()
	}
	return page.EscapedPath() + "?" + query.Encode()
}

// SameOrigin lets a state-changing request pass only when the site's own script has sent it. Errors: errs.Forbidden.
func SameOrigin(r *http.Request) error {
	site := r.Header.Get("Sec-Fetch-Site") // sent by browsers alone, and no script can change it
	if len(r.Header.Values(requestHeader)) == 0 || site != "" && site != "same-origin" {
		return errs.New(errs.Forbidden, "This request did not come from the page itself. Open the page and try again there.")
	}
	return nil
}

// SameSupplier lets a request pass unless the page that sent it is another supplier's, as whom the browser was signed
// in before. Errors: errs.Forbidden.
func SameSupplier(r *http.Request, supplierID string) error {
	if of := r.Header.Get(ofHeader); of != "" && of != supplierID {
		return errs.New(errs.Forbidden, "This browser is signed in as another supplier now. Reload the page.")
	}
	return nil
}

// Render answers with a page, which is never stored anywhere.
func (s *Site) Render(c *gin.Context, status int, page string, p Page) error {
	l := s.locale(c.Request)
	t, ok := l.pages()[page]
	if !ok {
		return fmt.Errorf("no page %s", page)
	}
	v := view{Page: p, Title: l.translate(s.cfg.Title), Lang: l.tag, Base: s.cfg.Base, SignOut: s.cfg.SignOut}
	for i := range s.languages {
		other := s.languages[len(s.languages)-1-i]
		query := c.Request.URL.Query()
		query.Set("lang", other.tag)
		v.Languages = append(v.Languages, languageLink{other.tag, other.name, Address(c.Request.URL, query), other == l})
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, "layout.html", v); err != nil {
		return fmt.Errorf("render %s: %w", page, err)
	}
	secure(c)
	challenge(c, status)
	c.Header("Cache-Control", "no-store")
	c.Header("Vary", "Accept-Language, Cookie")
	return httpapi.Bytes(c, status, "text/html; charset=utf-8", b.Bytes())
}

// Outcome is what an action came to; a status of 400 or more says that it failed.
type Outcome struct {
	Message string `json:"message"`           // for the region with role status, translated
	Result  string `json:"result,omitempty"`  // HTML for the page's element with data-result
	Dialog  string `json:"dialog,omitempty"`  // HTML of a dialog to answer first
	Address string `json:"address,omitempty"` // the page to go to; empty: the same one, read again
}

// Answer answers the page's script.
func (s *Site) Answer(c *gin.Context, status int, o Outcome) error {
	secure(c)
	challenge(c, status)
	c.Header("Cache-Control", "no-store")
	return httpapi.JSON(c, status, o)
}

// Show answers the page's script with a message and a defined template of a page.
func (s *Site) Show(c *gin.Context, message, page, name string, data any) error {
	result, err := s.Fragment(c, page, name, data)
	if err != nil {
		return err
	}
	return s.Answer(c, http.StatusOK, Outcome{Message: message, Result: result})
}

// Fragment returns a defined template of a page as HTML, for Outcome.Result.
func (s *Site) Fragment(c *gin.Context, page, name string, data any) (string, error) {
	t, ok := s.locale(c.Request).pages()[page]
	if !ok {
		return "", fmt.Errorf("no page %s", page)
	}
	var b bytes.Buffer
	if err := t.ExecuteTemplate(&b, name, data); err != nil {
		return "", fmt.Errorf("render %s of %s: %w", name, page, err)
	}
	return b.String(), nil
}

// Text returns one of the site's texts in the reader's language.
func (s *Site) Text(c *gin.Context, text string, arguments ...any) string {
	return s.locale(c.Request).translate(text, arguments...)
}

// State returns a state in the reader's language.
func (s *Site) State(c *gin.Context, state string) string { return s.Text(c, stateWord(state)) }

// Count returns a text that depends on a number.
func (s *Site) Count(c *gin.Context, one, many string, n int64) string {
	return s.locale(c.Request).plural(one, many, n)
}

// Explain returns an error for the reader: known says it of one that callers may see, and internal is said of any
// other.
func (s *Site) Explain(c *gin.Context, err error, internal string, known func(*errs.Error) string) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || e.Kind == errs.Internal {
		return s.Text(c, internal)
	}
	return known(e)
}
