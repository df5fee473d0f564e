package supplierauth

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// Bearer lets a request pass that carries a valid access token with the scope; "" asks for any valid token.
// The caller is then in the request's context: PrincipalFrom. A refusal has an empty body.
func (s *Service) Bearer(scope string) gin.HandlerFunc {
	return httpapi.HandleWith(func(c *gin.Context) error {
		p, err := s.Authenticate(c.Request.Header)
		if err != nil {
			return err
		}
		ctx := logctx.With(WithPrincipal(c.Request.Context(), p), slog.String("supplier_id", p.SupplierID))
		c.Request = c.Request.WithContext(ctx)
		if err := s.limiter.allow(p.SupplierID); err != nil {
			return err
		}
		if scope != "" && !p.Has(scope) {
			return errs.New(errs.Forbidden, "The access token does not have the scope "+scope+".")
		}
		return nil
	}, RenderBearerError)
}

// Authenticate is who the request's access token speaks for. Errors: errs.Unauthenticated.
func (s *Service) Authenticate(header http.Header) (Principal, error) {
	values := header.Values("Authorization")
	if len(values) == 0 || len(values) == 1 && !hasToken(values[0]) {
		return Principal{}, errs.Wrap(errs.Unauthenticated, "An access token is required.", errNoToken)
	}
	if len(values) > 1 { // a proxy and we might take different ones
		return Principal{}, errs.New(errs.Unauthenticated, "The header Authorization must stand once.")
	}
	_, token, _ := strings.Cut(values[0], " ")
	p, err := s.tokens.verify(strings.TrimLeft(token, " "))
	if err != nil {
		return Principal{}, errs.Wrap(errs.Unauthenticated, "The access token is missing, expired or invalid.", err)
	}
	return p, nil
}

// errNoToken is the cause when no access token was presented at all: then the challenge names no error (RFC 6750, 3).
var errNoToken = errors.New("no access token was presented")

// hasToken tells whether the value is of the scheme Bearer, in any letter case, and something follows.
func hasToken(value string) bool {
	scheme, token, _ := strings.Cut(value, " ")
	return strings.EqualFold(scheme, "Bearer") && strings.Trim(token, " ") != ""
}

// RenderBearerError answers an error of Authenticate, and one of a missing scope: an empty body with the challenge in
// WWW-Authenticate. Other errors are problem documents.
func RenderBearerError(c *gin.Context, err error) {
	challenge := "Bearer"
	switch {
	case errs.KindOf(err) == errs.Forbidden:
		challenge += ` error="insufficient_scope"`
	case errs.KindOf(err) != errs.Unauthenticated:
		httpapi.RenderProblem(c, err)
		return
	case !errors.Is(err, errNoToken):
		challenge += ` error="invalid_token"`
	}
	c.Header("WWW-Authenticate", challenge)
	c.AbortWithStatus(httpapi.StatusOf(err))
}
