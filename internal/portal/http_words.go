package portal

import (
	"errors"
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// text is one of the portal's own texts in the reader's language.
func (s *Service) text(c *gin.Context, text string, arguments ...any) string {
	return s.site.Translate(s.site.Language(c.Request), text, arguments...)
}

// count is a text that depends on a number.
func (s *Service) count(c *gin.Context, one, many string, n int64) string {
	if n == 1 {
		return s.text(c, one, n)
	}
	return s.text(c, many, n)
}

// why is what an attempt failed by, in the reader's language.
func (s *Service) why(c *gin.Context, reason string) string {
	if waited := within(reason); waited != "" {
		return s.text(c, "no answer within %s", waited)
	}
	return s.text(c, reason)
}

// explain is an error for the reader, with what to do about it.
func (s *Service) explain(c *gin.Context, err error) string {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || e.Kind == errs.Internal {
		return s.text(c, "Something went wrong on our side. Try again in a moment.")
	}
	switch e.Kind {
	case errs.Unauthenticated:
		return s.text(c, "Your session has ended. Ask for a new link to sign in again.")
	case errs.Unavailable:
		return s.text(c, "The service is busy with itself for a moment. Try again shortly; nothing was lost.")
	case errs.Exhausted:
		return s.text(c, e.Detail) + " " + s.text(c, "Wait a moment and try again.")
	}
	sentences := []string{s.text(c, e.Detail)}
	for _, v := range e.Violations {
		sentences = append(sentences, s.text(c, field(v))+" "+s.text(c, v.Detail)+".")
	}
	return strings.Join(sentences, " ")
}
