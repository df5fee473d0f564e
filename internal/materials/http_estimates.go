package materials

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/pkg/webhook"
)

// The own endpoint: events of our workers, and of suppliers that estimate by themselves. A signature by one of
// WEBHOOK_SIGNING_SECRETS or an access token with estimates:write lets one in. A proof, which only processes of this
// service can make, spares the checks of the members and names the round.

// Authenticator identifies the caller of a request by its access token, as supplierauth.Service does.
type Authenticator interface {
	Identify(c *gin.Context, scope string) (caller.Principal, error)
}

// eventSkew is how far a supplier's clock may be from the database's: an event may lie so far in the future, and one
// that is further back than its round began belongs to an earlier one.
const eventSkew = 5 * time.Minute

// sender is who sent an event and under which id. An empty supplierID may speak for every supplier.
type sender struct {
	supplierID  string
	webhookID   string
	own         bool  // it is the service's own delivery of the round uid/number
	proven      bool  // and a process of the service made it
	uid, number int64 // of the delivery that the webhook-id names; 0 when it names none
}

// ReceiveEstimates handles POST /api/material-requests/{id}/delivery-estimates, called by the service's own sender
// with a signature or by a supplier with a token. supplierauth.RenderBearerError answers its errors.
func (s Handlers) ReceiveEstimates(c *gin.Context) error {
	from, err := s.authenticateEvent(c)
	if err != nil {
		return err
	}
	id, err := httpapi.PathInt(c, "id")
	if err != nil {
		return err
	}
	item, ok := provenReceipt(c, from, id)
	if !ok {
		if item, err = s.readReceipt(c, from, id); err != nil {
			return err
		}
	}
	if err := s.receive(c.Request.Context(), item); err != nil {
		return err
	}
	return httpapi.JSON(c, http.StatusOK, statusAnswer{Estimated, id})
}

// provenReceipt reads an event that a worker of this service made: it is as this service writes events, and its
// estimates are kept as they are. ok is false for any other.
func provenReceipt(c *gin.Context, from sender, id int64) (item receiptItem, ok bool) {
	if !from.proven {
		return item, false
	}
	raw, err := httpapi.ReadJSON(c)
	if err != nil {
		return item, false
	}
	event, err := httpapi.DecodeOwn[struct {
		Data struct {
			SupplierID  string         `json:"supplier_id"`
			Estimates   jsontext.Value `json:"estimates"`
			Unavailable jsontext.Value `json:"unavailable"`
		} `json:"data"`
	}](raw)
	if err != nil || event.Data.SupplierID == "" || event.Data.Estimates == nil || event.Data.Unavailable == nil {
		return item, false
	}
	return receiptItem{requestKey: requestKey{event.Data.SupplierID, id}, own: true, stored: true, uid: from.uid,
		number: from.number, webhookID: from.webhookID, estimates: string(event.Data.Estimates),
		unavailable: string(event.Data.Unavailable),
	}, true
}

// readReceipt reads any event, with every violation.
func (s Handlers) readReceipt(c *gin.Context, from sender, id int64) (item receiptItem, err error) {
	var event webhook.Event
	if _, err := httpapi.DecodeJSON(c, func(body *eventBody) (violations []errs.Violation) {
		event, violations = body.event(id)
		if latest := s.deps.Now().Add(eventSkew); !from.own && event.Timestamp.After(latest) {
			violations = append(violations, errs.At("/timestamp", "must not be more than "+eventSkew.String()+" ahead"))
		}
		return violations
	}); err != nil {
		return item, err
	}
	if from.supplierID != "" && from.supplierID != event.Data.SupplierID {
		return item, unknownRequest()
	}
	estimates, err := json.Marshal(OrEmpty(event.Data.Estimates))
	unavailable, otherErr := json.Marshal(OrEmpty(event.Data.Unavailable))
	if err := errors.Join(err, otherErr); err != nil {
		return item, fmt.Errorf("encode estimates: %w", err)
	}
	return receiptItem{requestKey: requestKey{event.Data.SupplierID, event.Data.RequestID}, own: from.own, uid: from.uid,
		number: from.number, webhookID: from.webhookID, postedAt: event.Timestamp.UnixMicro(),
		estimates: string(estimates), unavailable: string(unavailable)}, nil
}

// authenticateEvent decides by the signature when there is one, otherwise by the Bearer token. The body stays readable.
func (s Handlers) authenticateEvent(c *gin.Context) (sender, error) {
	header := c.Request.Header
	if len(header.Values(webhook.HeaderSignature)) > 0 {
		return s.authenticateSignature(c)
	}
	principal, err := s.Bearer.Identify(c, caller.ScopeEstimatesWrite)
	ids := header.Values(webhook.HeaderID)
	if bad := len(ids) > 1 || len(ids) == 1 && !validWebhookID(ids[0]); bad &&
		(err == nil || errs.KindOf(err) == errs.Forbidden) {
		err = unauthenticated(webhook.ErrID)
	}
	if err != nil {
		return sender{}, err
	}
	from := sender{supplierID: principal.SupplierID, webhookID: header.Get(webhook.HeaderID)}
	from.uid, from.number, _, err = s.deps.Outbox.RoundOf(c.Request.Context(), from.webhookID)
	return from, err
}

// validWebhookID reports whether a text may be an id of another sender's event: it is kept in a row.
func validWebhookID(id string) bool {
	const alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-"
	return id != "" && len(id) <= 128 && strings.Trim(id, alphabet) == ""
}

// authenticateSignature finds who signed: one of our workers, by its proof, which costs no query; otherwise another
// holder of the secret, and the webhook-id says whether the event is one of our own.
func (s Handlers) authenticateSignature(c *gin.Context) (sender, error) {
	raw, err := httpapi.PeekBody(c, s.mayBeSigned(c.Request.Context(), c.Request.Header))
	if err != nil {
		return sender{}, err
	}
	id, err := s.verifySignature(c.Request.Context(), c.Request.Header, raw)
	if err != nil {
		return sender{}, unauthenticated(err)
	}
	httpapi.Known(c, "service")
	from := sender{webhookID: id}
	header := c.Request.Header
	from.uid, from.number, from.proven = s.deps.Proofs.Holds(header.Get(webhook.HeaderSignature),
		header.Get(caller.ProofHeader))
	if from.own = from.proven; !from.own {
		from.uid, from.number, from.own, err = s.deps.Outbox.RoundOf(c.Request.Context(), id)
	}
	return from, err
}

// mayBeSigned reports whether the headers of a signature can be right, whatever the body is: only then is it read to
// its usual size. The proof of a worker is known without the body.
func (s Handlers) mayBeSigned(ctx context.Context, h http.Header) bool {
	_, err := s.verifyByEither(ctx, h, nil, nil, func() bool { // without a secret all but the signature is verified
		_, _, proven := s.deps.Proofs.Holds(h.Get(webhook.HeaderSignature), h.Get(caller.ProofHeader))
		return proven
	})
	if !errors.Is(err, webhook.ErrSignature) {
		return false
	}
	return slices.ContainsFunc(strings.Fields(h.Get(webhook.HeaderSignature)), func(signature string) bool {
		version, text, _ := strings.Cut(signature, ",")
		mac, err := base64.StdEncoding.DecodeString(text)
		return version == "v1" && err == nil && len(mac) == sha256.Size
	})
}

// verifySignature checks the signature and its time.
func (s Handlers) verifySignature(ctx context.Context, h http.Header, raw []byte) (id string, err error) {
	return s.verifyByEither(ctx, h, raw, s.deps.Secrets, func() bool {
		seconds, bad := strconv.ParseInt(h.Get(webhook.HeaderTimestamp), 10, 64)
		_, unsigned := webhook.Verify(h, raw, time.Unix(seconds, 0), s.deps.Secrets...)
		return bad == nil && unsigned == nil
	})
}

// verifyByEither is webhook.Verify. While the database's clock jumps, the worker that signed may go by the other time:
// its call would be refused permanently. known says that it is no stranger's: those cost the database nothing.
func (s Handlers) verifyByEither(ctx context.Context, h http.Header, raw []byte, secrets []webhook.Secret,
	known func() bool) (id string, err error) {
	id, err = webhook.Verify(h, raw, s.deps.Now(), secrets...)
	if !errors.Is(err, webhook.ErrTimestamp) || !known() {
		return id, err
	}
	other, jumping := s.deps.DB.NowElsewhere(ctx)
	if !jumping {
		return "", err
	}
	// the jump may be known only now
	if id, err = webhook.Verify(h, raw, s.deps.Now(), secrets...); errors.Is(err, webhook.ErrTimestamp) {
		id, err = webhook.Verify(h, raw, other, secrets...)
	}
	return id, err
}

// unauthenticated keeps a dependency's absence from looking like bad credentials.
func unauthenticated(err error) error {
	if errs.KindOf(err) == errs.Unavailable {
		return err
	}
	return errs.Wrap(errs.Unauthenticated, "bad credentials", err)
}
