package httpapi

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// internalDetail is all that a caller learns of an internal error.
const internalDetail = "The service could not answer this request. " +
	"The X-Request-Id of this answer finds the cause in its log."

// problem is the body of an error answer by RFC 9457.
type problem struct {
	Type   string           `json:"type"`
	Title  string           `json:"title"`
	Status int              `json:"status"`
	Detail string           `json:"detail"`
	Errors []errs.Violation `json:"errors,omitempty"`
}

// RenderProblem answers with err as a problem document. It shows no text of an internal error.
func RenderProblem(c *gin.Context, err error) {
	status, detail := StatusOf(err), internalDetail
	var violations []errs.Violation
	if e, ok := errors.AsType[*errs.Error](err); ok && e.Kind != errs.Internal {
		detail, violations = e.Detail, e.Violations
	}
	RetryAfter(c, err)
	writeProblem(c, status, detail, violations)
}

func writeProblem(c *gin.Context, status int, detail string, violations []errs.Violation) {
	body, err := encode(problem{
		Type: problemType(status), Title: http.StatusText(status), Status: status, Detail: detail, Errors: violations,
	})
	if err != nil { // strings and numbers always encode
		c.AbortWithStatus(http.StatusInternalServerError)
		return
	}
	c.Abort()
	write(c, status, "application/problem+json", body)
}

// RetryAfter sets the header of that name when the error says how long to wait, rounded up: no client comes back too
// early.
func RetryAfter(c *gin.Context, err error) {
	e, ok := errors.AsType[*errs.Error](err)
	if !ok || e.Kind == errs.Internal || e.RetryAfter <= 0 {
		return
	}
	seconds := (e.RetryAfter + time.Second - 1) / time.Second
	c.Header("Retry-After", strconv.FormatInt(int64(seconds), 10))
}

// problemType points at the section of docs/errors.html that explains the status: a relative reference with its full
// path (RFC 9457, 3.1.1), as the service does not know by which name it is reached.
func problemType(status int) string {
	return "/docs/errors#" + strings.ReplaceAll(strings.ToLower(http.StatusText(status)), " ", "-")
}
