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

// Bearer tokens. The token is verified, and the call counted against the supplier's rate, before the body is read.
// Without a valid token a body may have 16 KiB. Refusals have no body: 401 for a bad token, 403 for a missing scope.

// Bearer lets a request pass if its access token is valid and has the scope; "" asks for no scope. It puts the caller
// into the request's context: see caller.From. A refusal has an empty body.
func (s Handlers) Bearer(scope string) gin.HandlerFunc {
	return httpapi.HandleWith(func(c *gin.Context) error {
		_, err := s.Identify(c, scope)
		return err
	}, RenderBearerError)
}

// Identify returns the caller that the request's access token names. Only Identify checks such callers and limits their
// rate. It puts the caller into the request's context and onto its log line. Errors: errs.Unauthenticated,
// errs.Exhausted, errs.Forbidden without the scope, httpapi.Proper's. RenderBearerError answers them.
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
	return p, httpapi.Proper(c)
}

// authenticate returns the caller that the access token in the header names. Errors: errs.Unauthenticated.
func (s Handlers) authenticate(header http.Header) (caller.Principal, error) {
	token, presented := BearerToken(header)
	if !presented {
		return caller.Principal{}, errs.New(errs.Unauthenticated, "An access token is required.")
	}
	p, err := s.tokens.verify(token)
	if err != nil {
		return caller.Principal{}, errs.Wrap(errs.Unauthenticated, "The access token is missing, expired or invalid.", err)
	}
	return p, nil
}

// BearerToken returns what follows the scheme Bearer, in upper or lower case, and whether the request carries any
// token. Of a header that is sent twice that is a wrong one, the empty text: a proxy might read another one than we do.
func BearerToken(header http.Header) (token string, presented bool) {
	if len(header.Values("Authorization")) > 1 {
		return "", true
	}
	scheme, token, _ := strings.Cut(header.Get("Authorization"), " ")
	token = strings.TrimLeft(token, " ")
	return token, strings.EqualFold(scheme, "Bearer") && token != ""
}

// RenderBearerError refuses the caller with an empty body and a challenge in WWW-Authenticate. The challenge names no
// error if the request had no token (RFC 6750, 3). Other errors are problem documents.
func RenderBearerError(c *gin.Context, err error) {
	challenge := "Bearer"
	_, presented := BearerToken(c.Request.Header)
	switch {
	case errs.KindOf(err) == errs.Forbidden:
		challenge += ` error="insufficient_scope"`
	case errs.KindOf(err) != errs.Unauthenticated:
		httpapi.RenderProblem(c, err)
		return
	case presented:
		challenge += ` error="invalid_token"`
	}
	c.Header("WWW-Authenticate", challenge)
	c.AbortWithStatus(httpapi.StatusOf(err))
}
