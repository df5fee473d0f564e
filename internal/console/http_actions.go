package console

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/logctx"
	"github.com/supplyhub/supplyhub/internal/receivers"
	"github.com/supplyhub/supplyhub/internal/web"
)

const (
	formBytes   = 256 << 10 // of a form's body
	mostTouched = 1000      // by one action on chosen rows
)

// answer ends an action that failed.
func (s *Service) answer(c *gin.Context, err error, dialog string) {
	c.Abort()
	httpapi.RetryAfter(c, err)
	failed := s.site.Answer(c, httpapi.StatusOf(err), web.Outcome{Message: s.explain(c, err), Dialog: dialog})
	if failed != nil {
		s.answer(c, failed, dialog)
	}
}

// Act makes a handler of an action, which has its form.
func (s *Service) Act(h httpapi.Handler) gin.HandlerFunc {
	return httpapi.HandleWith(func(c *gin.Context) error {
		if err := httpapi.ReadForm(c, formBytes); err != nil {
			return err
		}
		return h(c)
	}, func(c *gin.Context, err error) { s.answer(c, err, "") })
}

// bulk is an action on chosen rows.
type bulk struct {
	button         string // its text
	ask, askMany   string // with the number
	done, doneMany string
	danger         bool // the dialog warns, and asks about a single row too
	do             func(ctx context.Context, id string) error
}

// run asks how many are meant before more than one is touched, then does it. A failure does not stop the rest. The
// audit log names no row that was refused.
func (s *Service) run(c *gin.Context, b bulk) error {
	ids := c.PostFormArray("id")
	if one := c.PostForm("only"); one != "" {
		ids = []string{one}
	}
	ids = slices.Compact(slices.Sorted(slices.Values(ids))) // two rows may have one, as the days of a service
	switch {
	case len(ids) == 0:
		return errs.New(errs.Invalid, "Choose at least one row first.")
	case len(ids) > mostTouched:
		return errs.New(errs.Invalid, "Choose at most 1000 rows.")
	}
	if c.PostForm("confirm") == "" && c.GetHeader("Authorization") == "" && (len(ids) > 1 || b.danger) {
		return s.ask(c, b, ids)
	}
	n, touched, err := b.all(c.Request.Context(), ids)
	logctx.Note(c.Request.Context(), slog.Any("ids", touched), slog.Int("count", n))
	s.cache.Forget()
	if n == 0 && err != nil {
		return err
	}
	message := s.site.Count(c, b.done, b.doneMany, int64(n))
	if err != nil {
		message += " " + s.site.Count(c, "%d was left as it is:", "%d were left as they are:", int64(len(ids)-n)) + " " +
			s.explain(c, err)
	}
	return s.site.Answer(c, http.StatusOK, web.Outcome{Message: message})
}

// ask answers with the dialog whose answer sends the form again, with the chosen rows.
func (s *Service) ask(c *gin.Context, b bulk, ids []string) error {
	dialog, err := s.site.Fragment(c, "overview", "askdialog", map[string]any{
		"Question": s.site.Count(c, b.ask, b.askMany, int64(len(ids))), "Button": b.button, "Danger": b.danger,
		"Action": c.Request.URL.EscapedPath(), "IDs": ids})
	if err != nil {
		return err
	}
	logctx.Unchanged(c.Request.Context())
	return s.site.Answer(c, http.StatusOK, web.Outcome{Dialog: dialog})
}

// all returns how many worked, those that were not refused, and the first error. One that failed may be changed.
func (b bulk) all(ctx context.Context, ids []string) (n int, touched []string, first error) {
	for _, id := range ids {
		err := b.do(ctx, id)
		if err == nil {
			n++
		} else if first == nil {
			first = err
		}
		if err == nil || httpapi.StatusOf(err) >= http.StatusInternalServerError {
			touched = append(touched, id)
		}
	}
	return n, touched, first
}

// Redeliver handles POST /console/deliveries/redeliver.
func (s *Service) Redeliver(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Redeliver", ask: "Redeliver %d delivery?", askMany: "Redeliver %d deliveries?",
		done: "%d delivery will be sent again.", doneMany: "%d deliveries will be sent again.",
		do: func(ctx context.Context, id string) error {
			_, err := s.deps.Deliveries.Redeliver(ctx, id)
			return err
		},
	})
}

// Reopen handles POST /console/requests/reopen; an id is SUPPLIER/REQUEST.
func (s *Service) Reopen(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Reopen", ask: "Reopen %d request?", askMany: "Reopen %d requests?",
		done: "%d request will be estimated again.", doneMany: "%d requests will be estimated again.",
		do: func(ctx context.Context, id string) error {
			supplier, number, _ := strings.Cut(id, "/")
			request, err := strconv.ParseInt(number, 10, 64)
			if err != nil {
				return errs.New(errs.NotFound, "There is no such material request.")
			}
			return s.deps.Requests.Reopen(ctx, supplier, request)
		},
	})
}

// Pause handles POST /console/receivers/pause.
func (s *Service) Pause(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Pause", ask: "Pause %d receiver? Its deliveries are kept.",
		askMany:  "Pause %d receivers? Their deliveries are kept.",
		done:     "%d receiver is paused; its deliveries are kept.",
		doneMany: "%d receivers are paused; their deliveries are kept.",
		do: func(ctx context.Context, id string) error {
			return s.deps.Receivers.Pause(ctx, id, receivers.PausedByOperator)
		},
	})
}

// Resume handles POST /console/receivers/resume.
func (s *Service) Resume(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Resume", ask: "Resume %d receiver?", askMany: "Resume %d receivers?",
		done: "%d receiver is resumed.", doneMany: "%d receivers are resumed.",
		do: func(ctx context.Context, id string) error {
			return s.deps.Receivers.Resume(ctx, id, receivers.PausedByOperator)
		},
	})
}

// Activate handles POST /console/suppliers/activate.
func (s *Service) Activate(c *gin.Context) error {
	return s.run(c, bulk{
		button: "Activate", ask: "Activate %d supplier?", askMany: "Activate %d suppliers?",
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
