package portal

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/receivers"
)

const receiverPath = "/receiver"

// ShowReceiver handles GET /portal/receiver.
func (s *Service) ShowReceiver(c *gin.Context) error {
	view, err := s.deps.Receiver.Receiver(c.Request.Context(), caller.SupplierID(c))
	if err != nil {
		return err
	}
	events, err := s.deps.Receiver.Events()
	if err != nil {
		return err
	}
	return s.render(c, "receiver", receiverPath, receiverPage{view, events})
}

type receiverPage struct {
	receivers.ReceiverView
	Events []receivers.EventType
}

// SaveReceiver handles POST /portal/receiver.
func (s *Service) SaveReceiver(c *gin.Context) error {
	url := strings.TrimSpace(c.PostForm("url"))
	if url == "" {
		return errs.InvalidInput("The receiver's address is not valid.",
			errs.At("/url", "must not be empty; use Remove to have no receiver"))
	}
	err := s.deps.Receiver.SetURL(c.Request.Context(), caller.SupplierID(c), url)
	return s.done(c, err, "Saved. Send a test to see that your receiver answers.")
}

// RemoveReceiver handles POST /portal/receiver/remove.
func (s *Service) RemoveReceiver(c *gin.Context) error {
	err := s.deps.Receiver.SetURL(c.Request.Context(), caller.SupplierID(c), "")
	return s.done(c, err, "The receiver was removed. Pending deliveries are kept for a new one.")
}

// PauseReceiver handles POST /portal/receiver/pause.
func (s *Service) PauseReceiver(c *gin.Context) error {
	err := s.deps.Receiver.Pause(c.Request.Context(), caller.SupplierID(c))
	return s.done(c, err, "Paused. Nothing is sent and nothing is lost. Deliveries wait until you resume.")
}

// ResumeReceiver handles POST /portal/receiver/resume.
func (s *Service) ResumeReceiver(c *gin.Context) error {
	err := s.deps.Receiver.Resume(c.Request.Context(), caller.SupplierID(c))
	return s.done(c, err, "Resumed. Everything that was waiting is sent now.")
}

// SendTest handles POST /portal/receiver/test.
func (s *Service) SendTest(c *gin.Context) error {
	result, err := s.deps.Receiver.Test(c.Request.Context(), caller.SupplierID(c))
	if err != nil {
		return err
	}
	waiting, err := s.deps.Deliveries.Waiting(c.Request.Context(), caller.SupplierID(c))
	if err != nil {
		return err
	}
	receiver, err := s.deps.Receiver.Receiver(c.Request.Context(), caller.SupplierID(c))
	if err != nil {
		return err
	}
	message := s.site.Text(c, "The test was not answered: %s.", s.site.Text(c, text(result.Error)))
	if result.Status != nil {
		message = s.site.Text(c, "Your receiver answered the test with %s.",
			fmt.Sprintf("%s (%d)", http.StatusText(*result.Status), *result.Status))
		if probably := text(result.Error); probably != "" {
			message += " " + s.site.Text(c, "Probably") + ": " + s.site.Text(c, probably) + "."
		}
	}
	return s.site.Show(c, message, "receiver", "test", testView{result, waiting, receiver.State == "paused"})
}

// testView is a test call's result as the page shows it.
type testView struct {
	receivers.TestResult
	Waiting int64 // for the receiver
	Paused  bool  // waiting deliveries are sent when it is resumed
}

// Well reports whether the receiver took the call.
func (t testView) Well() bool { return t.Status != nil && *t.Status/100 == 2 }

// Hint returns what is probably wrong with a receiver that answered; empty: nothing, or the answer says it.
func (t testView) Hint() string {
	if t.Status == nil {
		return ""
	}
	return text(t.Error)
}

// RotateSecret handles POST /portal/receiver/rotate-secret.
func (s *Service) RotateSecret(c *gin.Context) error {
	overlap, err := time.ParseDuration(c.PostForm("overlap"))
	if err != nil {
		return errs.InvalidInput("The overlap is not valid.", errs.At("/overlap", "must be from 0s to 168h"))
	}
	secret, err := s.deps.Receiver.RotateSecret(c.Request.Context(), caller.SupplierID(c), overlap)
	if err != nil {
		return err
	}
	return s.site.Show(c, s.site.Text(c, "This page shows the new secret once."), "receiver", "secret", secret)
}
