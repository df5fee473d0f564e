package console

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/web"
	"github.com/supplyhub/supplyhub/internal/webhooks"
)

const (
	operatorCookie = "supplyhub_operator" // for the browser's session
	formBytes      = 256 << 10            // of a form's body
	mostTouched    = 1000                 // by one action on chosen rows
)

// session returns what a browser keeps instead of the token. Another token ends it, on every replica.
func (s *Service) session() string {
	mac := hmac.New(sha256.New, []byte(s.deps.Token))
	mac.Write([]byte("supplyhub console session"))
	return hex.EncodeToString(mac.Sum(nil))
}

// same reports whether the texts are equal, in a time that does not depend on the texts.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return hmac.Equal(x[:], y[:])
}

// Operator is the middleware of actions: 403 when they are off, 401 with the dialog that asks for the token without it.
// A program sends the token as Bearer; a browser needs the header that only the page's own script sends.
func (s *Service) Operator(c *gin.Context) {
	if s.deps.Token == "" {
		s.answer(c, errs.New(errs.Forbidden, "Actions are off: OPERATOR_TOKEN is not set."), "")
		return
	}
	bearer, found := strings.CutPrefix(c.GetHeader("Authorization"), "Bearer ")
	if found && same(bearer, s.deps.Token) {
		return
	}
	cookie, err := c.Cookie(operatorCookie)
	if found || err != nil || !same(cookie, s.session()) {
		dialog, err := s.site.Fragment(c, "overview", "tokendialog", nil)
		if err != nil {
			_ = c.Error(err)
		}
		s.answer(c, errs.New(errs.Unauthenticated, "Enter the operator token to act."), dialog)
		return
	}
	if err := web.SameOrigin(c.Request); err != nil {
		s.answer(c, err, "")
	}
}

// answer ends an action that failed.
func (s *Service) answer(c *gin.Context, err error, dialog string) {
	c.Abort()
	s.site.Answer(c, httpapi.StatusOf(err), web.Outcome{Failed: true, Message: s.explain(c, err), Dialog: dialog})
}

// Act makes a handler of an action.
func (s *Service) Act(h httpapi.Handler) gin.HandlerFunc {
	return httpapi.HandleWith(h, func(c *gin.Context, err error) { s.answer(c, err, "") })
}

// EnterToken handles POST /console/token.
func (s *Service) EnterToken(c *gin.Context) error {
	if s.deps.Token == "" {
		return errs.New(errs.Forbidden, "Actions are off: OPERATOR_TOKEN is not set.")
	}
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, formBytes)
	if !same(strings.TrimSpace(c.PostForm("operator_token")), s.deps.Token) {
		return errs.New(errs.Unauthenticated, "This is not the operator token.")
	}
	if err := web.SameOrigin(c.Request); err != nil {
		return err
	}
	http.SetCookie(c.Writer, &http.Cookie{ //nolint:gosec // the operator listener is plain HTTP; it never leaves its path
		Name: operatorCookie, Value: s.session(), Path: Base, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: c.Request.TLS != nil,
	})
	s.site.Answer(c, http.StatusOK, web.Outcome{Message: s.site.Text(c, "You can act now, until you close the browser.")})
	return nil
}

// bulk is an action on chosen rows.
type bulk struct {
	button         string // its text
	ask, askMany   string // with the number
	done, doneMany string
	danger         bool
	do             func(ctx context.Context, id string) error
	matching       *matching // what it does with all that a filter chooses; nil: only chosen rows
	withoutAsking  bool      // when it is about one row only
}

// run asks how many are meant before more than one is touched, then does it. What fails does not stop the rest.
func (s *Service) run(c *gin.Context, b bulk) error {
	c.Request.Body = http.MaxBytesReader(c.Writer, c.Request.Body, formBytes)
	if b.matching != nil && c.PostForm("matching") != "" {
		return s.runMatching(c, b)
	}
	ids := c.PostFormArray("id")
	if one := c.PostForm("only"); one != "" {
		ids = []string{one}
	}
	switch {
	case len(ids) == 0:
		return errs.New(errs.Invalid, "Choose at least one row first.")
	case len(ids) > mostTouched:
		return errs.New(errs.Invalid, "Choose at most 1000 rows.")
	}
	if c.PostForm("confirm") == "" && c.GetHeader("Authorization") == "" && (len(ids) > 1 || !b.withoutAsking) {
		dialog, err := s.site.Fragment(c, "overview", "askdialog", map[string]any{
			"Question": s.site.Count(c, b.ask, b.askMany, int64(len(ids))), "Button": b.button, "IDs": ids,
			"Action": c.Request.URL.Path, "Danger": b.danger,
		})
		if err != nil {
			return err
		}
		s.site.Answer(c, http.StatusOK, web.Outcome{Dialog: dialog})
		return nil
	}
	n, err := b.all(c.Request.Context(), ids)
	s.cache.forget()
	if n == 0 && err != nil {
		return err
	}
	message := s.site.Count(c, b.done, b.doneMany, int64(n))
	if err != nil {
		message += " " + s.site.Count(c, "%d was left as it is:", "%d were left as they are:", int64(len(ids)-n)) + " " +
			s.explain(c, err)
	}
	s.site.Answer(c, http.StatusOK, web.Outcome{Message: message, Failed: false})
	return nil
}

// all returns how many worked and the first error.
func (b bulk) all(ctx context.Context, ids []string) (n int, first error) {
	for _, id := range ids {
		if err := b.do(ctx, id); err == nil {
			n++
		} else if first == nil {
			first = err
		}
	}
	return n, first
}

// Redeliver handles POST /console/deliveries/redeliver.
func (s *Service) Redeliver(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Redeliver", withoutAsking: true, ask: "Redeliver %d delivery?", askMany: "Redeliver %d deliveries?",
		done: "%d delivery is on its way again.", doneMany: "%d deliveries are on their way again.",
		do: func(ctx context.Context, id string) error {
			_, err := s.deps.Deliveries.Redeliver(ctx, id)
			return err
		},
		matching: &matching{
			count: func(ctx context.Context, status, supplier string) (int64, error) {
				filter := webhooks.Filter{Status: webhooks.Status(status), SupplierID: supplier}
				return s.deps.Deliveries.CountLost(ctx, filter, mostCounted+1)
			},
			some: func(ctx context.Context, status, supplier string, until time.Time) (int64, bool, error) {
				filter := webhooks.Filter{Status: webhooks.Status(status), SupplierID: supplier}
				return s.deps.Deliveries.RedeliverLost(ctx, filter, until, atOnce)
			},
		},
	})
}

// Reopen handles POST /console/requests/reopen; an id is SUPPLIER/REQUEST.
func (s *Service) Reopen(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Reopen", withoutAsking: true, ask: "Reopen %d request?", askMany: "Reopen %d requests?",
		done: "%d request is estimated again.", doneMany: "%d requests are estimated again.",
		do: func(ctx context.Context, id string) error {
			supplier, number, _ := strings.Cut(id, "/")
			request, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return errs.New(errs.NotFound, "There is no such material request.")
			}
			return s.deps.Requests.Reopen(ctx, supplier, request)
		},
		matching: &matching{
			count: func(ctx context.Context, status, supplier string) (int64, error) {
				if status != string(materials.Failed) {
					return 0, errs.New(errs.Invalid, "Only failed requests can be reopened: choose this state.")
				}
				return s.deps.Requests.CountFailed(ctx, supplier, mostCounted+1)
			},
			some: func(ctx context.Context, _, supplier string, until time.Time) (int64, bool, error) {
				return s.deps.Requests.ReopenFailed(ctx, supplier, until, atOnce)
			},
		},
	})
}

// Pause handles POST /console/receivers/pause.
func (s *Service) Pause(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Pause", withoutAsking: true, ask: "Pause %d receiver? Its deliveries are kept.",
		askMany:  "Pause %d receivers? Their deliveries are kept.",
		done:     "%d receiver is paused; its deliveries are kept.",
		doneMany: "%d receivers are paused; their deliveries are kept.",
		do: func(ctx context.Context, id string) error {
			return s.deps.Deliveries.Pause(ctx, id, webhooks.PausedByOperator)
		},
	})
}

// Resume handles POST /console/receivers/resume.
func (s *Service) Resume(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Resume", withoutAsking: true, ask: "Resume %d receiver?", askMany: "Resume %d receivers?",
		done: "%d receiver is sent to again.", doneMany: "%d receivers are sent to again.",
		do: func(ctx context.Context, id string) error {
			return s.deps.Deliveries.Resume(ctx, id, webhooks.PausedByOperator)
		},
	})
}

// Activate handles POST /console/suppliers/activate.
func (s *Service) Activate(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Activate", withoutAsking: true, ask: "Activate %d supplier?", askMany: "Activate %d suppliers?",
		done: "%d supplier is active.", doneMany: "%d suppliers are active.", do: s.deps.Suppliers.Activate,
	})
}

// Deactivate handles POST /console/suppliers/deactivate.
func (s *Service) Deactivate(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Deactivate", danger: true, ask: "Deactivate %d supplier? Its keys are refused and its sessions end.",
		askMany: "Deactivate %d suppliers? Their keys are refused and their sessions end.",
		done:    "%d supplier is deactivated.", doneMany: "%d suppliers are deactivated.", do: s.deps.Suppliers.Deactivate,
	})
}
