package supplierauth

import (
	"errors"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
)

// Handlers answer the package's routes and check the callers of others'. They are apart from Service because the linker
// keeps all exported methods of what reflection may reach: a worker, which has no routes, would link gin.
type Handlers struct{ *Service }

// refreshBody is the body of refresh and revoke.
type refreshBody struct {
	RefreshToken *string `json:"refreshToken"`
}

// Token exchanges an API key for a token pair (specification 4.1). A body says nothing; one that is too large is
// refused, to a caller whose key is right.
func (s Handlers) Token(c *gin.Context) error {
	c.Header("Cache-Control", "no-store")
	keys := c.Request.Header.Values("X-Api-Key")
	if len(keys) != 1 { // of two, a proxy and we might take different ones
		return refuseClient()
	}
	pair, err := s.Exchange(c.Request.Context(), keys[0], httpapi.Proper(c))
	return httpapi.Answer(c, pair, err)
}

// Refresh rotates a refresh token (specification 4.2). Every fault of the body is invalid_grant.
func (s Handlers) Refresh(c *gin.Context) error {
	c.Header("Cache-Control", "no-store")
	text, err := presentedRefreshToken(c)
	if err != nil {
		return err
	}
	_, fault := httpapi.Query(c)
	pair, err := s.refresh(c.Request.Context(), text, fault)
	return httpapi.Answer(c, pair, err)
}

// Revoke ends the session of a refresh token (specification 4.3). It is 204 whatever is sent; only a write that could
// not happen is an error. A body that refresh would refuse changes nothing here.
func (s Handlers) Revoke(c *gin.Context) error {
	text, err := presentedRefreshToken(c)
	if err != nil {
		logctx.Unchanged(c.Request.Context())
	} else if err := s.revoke(c.Request.Context(), text); err != nil {
		return err
	}
	c.Status(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
	return nil
}

// Ping returns whose access token it is and how many seconds it has left. It is served behind Bearer.
func (s Handlers) Ping(c *gin.Context) error {
	p := caller.From(c.Request.Context())
	type supplier struct {
		ID   string `json:"id"`
		Name string `json:"name"`
	}
	return httpapi.JSON(c, http.StatusOK, struct {
		Status    string   `json:"status"`
		Supplier  supplier `json:"supplier"`
		ExpiresIn int64    `json:"expires_in"`
	}{"ok", supplier{p.SupplierID, p.SupplierName}, int64(p.ExpiresAt.Sub(s.now()).Seconds())})
}

// JWKS publishes the verifying keys.
func (s Handlers) JWKS(c *gin.Context) error {
	if _, err := httpapi.Query(c); err != nil {
		return err
	}
	c.Header("Cache-Control", "public, max-age=300")
	return httpapi.JSON(c, http.StatusOK, s.tokens.jwks())
}

// RenderError answers the token endpoints' errors: {Error, ErrorDescription} for a refusal, exactly these two members
// (specification 2.6), and a problem document for all else.
func RenderError(c *gin.Context, err error) {
	r, ok := errors.AsType[*refusal](err)
	if !ok {
		httpapi.RenderProblem(c, err)
		return
	}
	c.Header("Cache-Control", "no-store")
	_ = httpapi.JSON(c, httpapi.StatusOf(err), struct{ Error, ErrorDescription string }{r.code, r.Error()})
}

// presentedRefreshToken reads the body. A body that is not one is a refusal.
func presentedRefreshToken(c *gin.Context) (string, error) {
	raw, err := httpapi.ReadJSON(c)
	if err != nil && errs.KindOf(err) == errs.Internal {
		return "", err // the caller hung up
	}
	if err != nil {
		return "", refuseGrant()
	}
	body, violations := httpapi.Decode[refreshBody](raw)
	if body == nil || len(violations) > 0 || body.RefreshToken == nil {
		return "", refuseGrant()
	}
	return *body.RefreshToken, nil
}
