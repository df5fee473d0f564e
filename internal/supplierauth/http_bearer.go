package supplierauth

import (
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// Who calls: the access token is verified, and the supplier's rate is counted, before the body is read. Without a
// valid token a body may have 16 KiB. The answers to bad tokens have no body: 401 for who, 403 for what.

// Bearer lets a request pass that carries a valid access token with the scope; "" asks for any valid token.
// The caller is then in the request's context: caller.From. A refusal has an empty body.
func (s Handlers) Bearer(scope string) gin.HandlerFunc {
	return httpapi.HandleWith(func(c *gin.Context) error {
		_, err := s.Identify(c, scope)
		return err
	}, RenderBearerError)
}

// Identify returns who the request's access token speaks for. Only here is such a caller checked and limited. From here
// on the caller is in the request's context and on its log line. Errors: errs.Unauthenticated, errs.Exhausted,
// errs.Forbidden without the scope, errs.Invalid for a query string that does not parse; RenderBearerError answers
// them.
func (s Handlers) Identify(c *gin.Context, scope string) (caller.Principal, error) {
	p, err := s.authenticate(c.Request.Header)
	if err != nil {
		return caller.Principal{}, err
	}
	ctx := logctx.With(caller.With(c.Request.Context(), p), slog.String("supplier_id", p.SupplierID))
	c.Request = c.Request.WithContext(ctx)
	logctx.Note(ctx, slog.String("by", "access token"), slog.String("session_id", p.SessionID))
	httpapi.Known(c, p.SupplierID)
	if err := s.limiter.allow(p.SupplierID); err != nil {
		return caller.Principal{}, err
	}
	if scope != "" && !p.Has(scope) {
		return caller.Principal{}, errs.New(errs.Forbidden, "The access token does not have the scope "+scope+".")
	}
	_, err = httpapi.Query(c)
	return p, err
}

// authenticate returns who the request's access token speaks for. Errors: errs.Unauthenticated.
func (s Handlers) authenticate(header http.Header) (caller.Principal, error) {
	values := header.Values("Authorization")
	if !presentsToken(header) {
		return caller.Principal{}, errs.New(errs.Unauthenticated, "An access token is required.")
	}
	if len(values) > 1 { // a proxy and we might take different ones
		return caller.Principal{}, errs.New(errs.Unauthenticated, "The header Authorization must be sent once.")
	}
	_, token, _ := strings.Cut(values[0], " ")
	p, err := s.tokens.verify(strings.TrimLeft(token, " "))
	if err != nil {
		return caller.Principal{}, errs.Wrap(errs.Unauthenticated, "The access token is missing, expired or invalid.", err)
	}
	return p, nil
}

// presentsToken reports whether the request carries any access token.
func presentsToken(header http.Header) bool {
	values := header.Values("Authorization")
	return len(values) > 1 || len(values) == 1 && hasToken(values[0])
}

// hasToken reports whether the value names the scheme Bearer, in any letter case, and something follows.
func hasToken(value string) bool {
	scheme, token, _ := strings.Cut(value, " ")
	return strings.EqualFold(scheme, "Bearer") && strings.Trim(token, " ") != ""
}

// RenderBearerError answers a refusal of the caller with an empty body and the challenge in WWW-Authenticate, which
// names no error when no token was presented (RFC 6750, 3). Other errors are problem documents.
func RenderBearerError(c *gin.Context, err error) {
	challenge := "Bearer"
	switch {
	case errs.KindOf(err) == errs.Forbidden:
		challenge += ` error="insufficient_scope"`
	case errs.KindOf(err) != errs.Unauthenticated:
		httpapi.RenderProblem(c, err)
		return
	case presentsToken(c.Request.Header):
		challenge += ` error="invalid_token"`
	}
	c.Header("WWW-Authenticate", challenge)
	c.AbortWithStatus(httpapi.StatusOf(err))
}
