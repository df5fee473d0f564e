package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Handler is a gin handler that may fail. Having failed, it must not have written anything.
type Handler func(*gin.Context) error

// Renderer answers a request whose handler failed.
type Renderer func(*gin.Context, error)

// statusClientGone is what the log and the metrics show of a request whose caller hung up. One that closed only its
// sending side still reads an answer, and gets a 503.
const statusClientGone = 499

// goneKey marks such a request.
const goneKey = "caller gone"

// shownStatus returns the status that the log and the metrics show.
func shownStatus(c *gin.Context) int {
	if c.GetBool(goneKey) {
		return statusClientGone
	}
	return c.Writer.Status()
}

// Handle makes a gin handler of h, whose errors are answered as problem documents (RFC 9457). It ends the
// chain on an error and so serves for middleware too.
func Handle(h Handler) gin.HandlerFunc { return HandleWith(h, RenderProblem) }

// HandleWith is Handle with an error body of the route's own.
func HandleWith(h Handler, render Renderer) gin.HandlerFunc {
	return func(c *gin.Context) {
		err := h(c)
		if err == nil {
			return
		}
		c.Abort()
		// Whatever the error says (SQLite says "interrupted"), the client is gone, unless its body was only slow.
		if errors.Is(c.Request.Context().Err(), context.Canceled) && !heldBy(c).late {
			c.Set(goneKey, true)
			if StatusOf(err) >= http.StatusInternalServerError {
				err = errs.NewUnavailable("The caller closed its side before the answer was there.", time.Second, err)
			}
		}
		_ = c.Error(err) // the access log shows it
		if !c.Writer.Written() {
			if StatusOf(err) == http.StatusUnauthorized {
				dropBody(c)
			}
			render(c, err)
		}
	}
}

// statuses is the only table from kinds to statuses.
var statuses = map[errs.Kind]int{
	errs.Invalid: http.StatusBadRequest, errs.Unauthenticated: http.StatusUnauthorized,
	errs.Forbidden: http.StatusForbidden, errs.NotFound: http.StatusNotFound, errs.Conflict: http.StatusConflict,
	errs.Unprocessable: http.StatusUnprocessableEntity, errs.TooLarge: http.StatusRequestEntityTooLarge,
	errs.Unsupported: http.StatusUnsupportedMediaType, errs.Exhausted: http.StatusTooManyRequests,
	errs.Unavailable: http.StatusServiceUnavailable,
}

// StatusOf returns the HTTP status of an error.
func StatusOf(err error) int {
	return cmp.Or(statuses[errs.KindOf(err)], http.StatusInternalServerError)
}

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
	body, _ := encode(problem{ // strings and numbers always encode
		Type: problemType(status), Title: http.StatusText(status), Status: status, Detail: detail, Errors: violations,
	})
	c.Abort()
	if err := Bytes(c, status, "application/problem+json", body); err != nil { // it names many violations
		RenderProblem(c, err)
	}
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
