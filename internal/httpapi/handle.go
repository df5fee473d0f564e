package httpapi

import (
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

// StatusOf returns the HTTP status of an error. This is the only table from kinds to statuses.
func StatusOf(err error) int {
	switch errs.KindOf(err) {
	case errs.Invalid:
		return http.StatusBadRequest
	case errs.Unauthenticated:
		return http.StatusUnauthorized
	case errs.Forbidden:
		return http.StatusForbidden
	case errs.NotFound:
		return http.StatusNotFound
	case errs.Conflict:
		return http.StatusConflict
	case errs.Unprocessable:
		return http.StatusUnprocessableEntity
	case errs.TooLarge:
		return http.StatusRequestEntityTooLarge
	case errs.Unsupported:
		return http.StatusUnsupportedMediaType
	case errs.Exhausted:
		return http.StatusTooManyRequests
	case errs.Unavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}
