package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/logctx"
)

// Audited makes the middleware of a route whose calls change a supplier's access or receiver: it writes a line for each
// that did, with the action's name, such as receiver.set. It comes before what finds out who calls. A call that its
// handler refuses changes nothing; of one that failed, by a panic too, the change may have been made in part. A change
// that has begun runs to its end when its caller hangs up, so that its line says what became of it.
func Audited(log *slog.Logger, action string) gin.HandlerFunc {
	return func(c *gin.Context) {
		ctx, audit := logctx.WithAudit(context.WithoutCancel(c.Request.Context()))
		c.Request = c.Request.WithContext(ctx)
		if len(c.Params) > 0 {
			logctx.Note(ctx, slog.String("ids", c.Params[0].Value))
		}
		panicked := true
		defer func() {
			status := shownStatus(c)
			if refused := status >= http.StatusBadRequest && status < http.StatusInternalServerError; panicked || !refused {
				audit.Write(c.Request.Context(), log, action, c.ClientIP(), panicked || status >= http.StatusInternalServerError)
			}
		}()
		c.Next()
		panicked = false
	}
}
