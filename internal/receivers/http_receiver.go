package receivers

import (
	"context"
	"net/http"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

const defaultSecretOverlap = 24 * time.Hour

// ShowReceiver handles GET /api/webhook-receiver. It also answers a change with the receiver as it is then, read again:
// another call's change meanwhile shows.
func (s *SelfService) ShowReceiver(c *gin.Context) error {
	view, err := s.Receiver(c.Request.Context(), caller.SupplierID(c))
	return httpapi.Answer(c, view, err)
}

type receiverBody struct {
	URL *string `json:"url"`
}

func (b *receiverBody) validate() []errs.Violation {
	switch {
	case b.URL == nil:
		return []errs.Violation{errs.At("/url", "is required")}
	case *b.URL == "":
		return []errs.Violation{errs.At("/url", "must not be empty; DELETE takes the receiver away")}
	default:
		return nil
	}
}

// PutReceiver handles PUT /api/webhook-receiver.
func (s *SelfService) PutReceiver(c *gin.Context) error {
	body, err := httpapi.DecodeJSON(c, (*receiverBody).validate)
	if err != nil {
		return err
	}
	if err := s.SetURL(c.Request.Context(), caller.SupplierID(c), *body.URL); err != nil {
		return err
	}
	return s.ShowReceiver(c)
}

// DeleteReceiver handles DELETE /api/webhook-receiver.
func (s *SelfService) DeleteReceiver(c *gin.Context) error {
	if err := s.SetURL(c.Request.Context(), caller.SupplierID(c), ""); err != nil {
		return err
	}
	c.Status(http.StatusNoContent)
	c.Writer.WriteHeaderNow()
	return nil
}

type rotationBody struct {
	Overlap *string `json:"overlap"`
}

func (b *rotationBody) validate() []errs.Violation {
	if _, ok := b.overlap(); !ok {
		return []errs.Violation{errs.At("/overlap", "must be a duration from 0s to 168h, such as 24h")}
	}
	return nil
}

func (b *rotationBody) overlap() (time.Duration, bool) {
	if b.Overlap == nil {
		return defaultSecretOverlap, true
	}
	overlap, err := time.ParseDuration(*b.Overlap)
	return overlap, err == nil && overlap >= 0 && overlap <= longestKeep
}

// RotateReceiverSecret handles POST /api/webhook-receiver/rotate-secret.
func (s *SelfService) RotateReceiverSecret(c *gin.Context) error {
	body := &rotationBody{} // none at all is one without an overlap
	if c.Request.ContentLength != 0 {
		var err error
		if body, err = httpapi.DecodeJSON(c, (*rotationBody).validate); err != nil {
			return err
		}
	}
	overlap, _ := body.overlap()
	secret, err := s.RotateSecret(c.Request.Context(), caller.SupplierID(c), overlap)
	if err != nil {
		return err
	}
	c.Header("Cache-Control", "no-store")
	return httpapi.JSON(c, http.StatusOK, struct {
		WebhookSecret string `json:"webhook_secret"`
	}{secret})
}

// PauseReceiver handles POST /api/webhook-receiver/pause.
func (s *SelfService) PauseReceiver(c *gin.Context) error { return s.changeReceiver(c, s.Pause) }

// ResumeReceiver handles POST /api/webhook-receiver/resume.
func (s *SelfService) ResumeReceiver(c *gin.Context) error { return s.changeReceiver(c, s.Resume) }

// changeReceiver is a pause or a resume: both may be repeated, and the second changes nothing.
func (s *SelfService) changeReceiver(c *gin.Context, change func(context.Context, string) error) error {
	if err := change(c.Request.Context(), caller.SupplierID(c)); err != nil {
		return err
	}
	return s.ShowReceiver(c)
}

// TestReceiver handles POST /api/webhook-receiver/test.
func (s *SelfService) TestReceiver(c *gin.Context) error {
	result, err := s.Test(c.Request.Context(), caller.SupplierID(c))
	return httpapi.Answer(c, result, err)
}

// EventTypes handles GET /api/webhook-event-types.
func (s *SelfService) EventTypes(c *gin.Context) error {
	types, err := s.Events()
	return httpapi.Answer(c, types, err)
}
