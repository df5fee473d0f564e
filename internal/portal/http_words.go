package portal

import (
	"strings"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
)

// explain returns an error for the reader, with what to do about it.
func (s *Service) explain(c *gin.Context, err error) string {
	return s.site.Explain(c, err, "Something went wrong on our side. Try again in a moment.", func(e *errs.Error) string {
		switch e.Kind {
		case errs.Unauthenticated:
			return s.site.Text(c, "Your session has ended. Ask for a new link to sign in again.")
		case errs.Unavailable:
			return s.site.Text(c, "The service is unavailable for a moment. Try again shortly; nothing was lost.")
		case errs.Exhausted:
			return s.site.Text(c, e.Detail) + " " + s.site.Text(c, "Wait a moment and try again.")
		default:
			return s.sentences(c, e)
		}
	})
}

// sentences returns the error's detail and every violation.
func (s *Service) sentences(c *gin.Context, e *errs.Error) string {
	return s.site.Text(c, e.Detail) + strings.Join(lists.Of(e.Violations, func(v errs.Violation) string {
		return " " + s.site.Text(c, field(v)) + " " + s.site.Text(c, v.Detail) + "."
	}), "")
}

// field returns what the page calls the place of a violation.
func field(v errs.Violation) string {
	switch name := v.Place(); name {
	case "url":
		return "URL"
	case "since":
		return "Since"
	case "until":
		return "Until"
	case "status":
		return "Status"
	case "overlap":
		return "The overlap"
	case "estimate_id":
		return "The estimate"
	default:
		return name
	}
}
