package materials

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// eventLimit is httpapi's limit of a body, in bytes.
const eventLimit = 1 << 20

// caller is who sent an event and under which id. An empty supplierID may speak for every supplier.
type caller struct {
	supplierID string
	webhookID  string
}

// receiptAnswer is the same whether the event changed something or not.
type receiptAnswer struct {
	Status Status `json:"status"`
	ID     int64  `json:"id"`
}

// ReceiveEstimates handles POST /api/material-requests/{id}/delivery-estimates, called by the service's own sender
// with a signature or by a supplier with a token.
func (s *Service) ReceiveEstimates(c *gin.Context) error {
	from, err := s.authenticateEvent(c)
	if err != nil {
		return refuse(c, err)
	}
	id, err := httpapi.PathInt(c, "id")
	if err != nil {
		return err
	}
	var event webhook.Event
	if _, err := httpapi.DecodeJSON(c, func(body *eventBody) (violations []errs.Violation) {
		event, violations = body.event(id)
		return violations
	}); err != nil {
		return err
	}
	if from.supplierID != "" && from.supplierID != event.Data.SupplierID {
		return unknownRequest()
	}
	if err := s.receive(c.Request.Context(), from.webhookID, event); err != nil {
		return err
	}
	httpapi.JSON(c, http.StatusOK, receiptAnswer{Estimated, id})
	return nil
}

// authenticateEvent decides by the signature when there is one, otherwise by the Bearer token. The body stays readable.
func (s *Service) authenticateEvent(c *gin.Context) (caller, error) {
	header := c.Request.Header
	if len(header.Values(webhook.HeaderSignature)) > 0 {
		return s.authenticateSignature(c)
	}
	principal, err := s.deps.Bearer.Authenticate(header)
	if err != nil {
		return caller{}, unauthenticated(err)
	}
	ids := header.Values(webhook.HeaderID)
	if len(ids) > 1 || len(ids) == 1 && !validWebhookID(ids[0]) {
		return caller{}, unauthenticated(webhook.ErrID)
	}
	if !slices.Contains(principal.Scopes, supplierauth.ScopeEstimatesWrite) {
		return caller{}, errs.New(errs.Forbidden, "the token lacks the scope "+supplierauth.ScopeEstimatesWrite)
	}
	return caller{supplierID: principal.SupplierID, webhookID: header.Get(webhook.HeaderID)}, nil
}

func validWebhookID(id string) bool {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return id != "" && len(id) <= 128 && strings.Trim(id, alphabet) == ""
}

func (s *Service) authenticateSignature(c *gin.Context) (caller, error) {
	raw, err := peekBody(c)
	if err != nil {
		return caller{}, err
	}
	id, err := webhook.Verify(c.Request.Header, raw, s.deps.Now(), s.deps.Secrets...)
	if err != nil {
		return caller{}, unauthenticated(err)
	}
	return caller{webhookID: id}, nil
}

// peekBody reads the raw body, which the signature covers whatever its type, and leaves it to be read again. A body
// that cannot be read whole is refused as httpapi refuses it: nobody can tell who signed it.
func peekBody(c *gin.Context) ([]byte, error) {
	if err := httpapi.Admit(c); err != nil {
		return nil, err
	}
	body := c.Request.Body
	room := min(max(c.Request.ContentLength, 0), eventLimit) + bytes.MinRead
	buffer := bytes.NewBuffer(make([]byte, 0, room))
	_, err := buffer.ReadFrom(io.LimitReader(body, eventLimit+1))
	raw := buffer.Bytes()
	c.Request.Body = struct {
		io.Reader
		io.Closer
	}{io.MultiReader(bytes.NewReader(raw), body), body}
	if err == nil && len(raw) <= eventLimit {
		return raw, nil
	}
	if _, err := httpapi.ReadJSON(c); err != nil {
		return nil, err
	}
	return nil, errs.Wrap(errs.Invalid, "The request body did not arrive whole.", err)
}

// unauthenticated keeps a dependency's absence from looking like bad credentials.
func unauthenticated(err error) error {
	if errs.KindOf(err) == errs.Unavailable {
		return err
	}
	return errs.Wrap(errs.Unauthenticated, "bad credentials", err)
}

// refuse answers 401 and 403 with an empty body, as on every Bearer route; other errors are left to the frame.
func refuse(c *gin.Context, err error) error {
	switch errs.KindOf(err) {
	case errs.Unauthenticated:
		challenge := "Bearer"
		if len(c.Request.Header.Values("Authorization")) > 0 {
			challenge += ` error="invalid_token"`
		}
		c.Header("WWW-Authenticate", challenge)
		c.AbortWithStatus(http.StatusUnauthorized)
	case errs.Forbidden:
		c.AbortWithStatus(http.StatusForbidden)
	default:
		return err
	}
	_ = c.Error(err) // the access log shows it
	return nil
}
