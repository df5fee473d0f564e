package httpapi

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"os"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
)

// Handler is a gin handler that may fail. Having failed, it must not have written anything.
type Handler func(*gin.Context) error

// Renderer answers a request whose handler failed.
type Renderer func(*gin.Context, error)

// statusClientGone is what the log and the metrics show of a request whose caller hung up. It is never received.
const statusClientGone = 499

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
		if errors.Is(c.Request.Context().Err(), context.Canceled) && !errors.Is(err, os.ErrDeadlineExceeded) {
			c.Status(statusClientGone)
			return
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
