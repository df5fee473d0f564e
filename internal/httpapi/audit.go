package httpapi

import (
	"log/slog"
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/logctx"
)

// Audited makes the middleware that writes a line for each call that changed a supplier's access or receiver. actions
// are by method and route, such as "PUT /api/webhook-receiver". A call that is refused changes nothing.
func Audited(log *slog.Logger, actions map[string]string) gin.HandlerFunc {
	return func(c *gin.Context) {
		action := actions[c.Request.Method+" "+c.FullPath()]
		if action == "" {
			return
		}
		ctx, audit := logctx.WithAudit(c.Request.Context())
		c.Request = c.Request.WithContext(ctx)
		if len(c.Params) > 0 {
			logctx.Note(ctx, slog.String("ids", c.Params[0].Value))
		}
		c.Next()
		status := c.Writer.Status()
		if refused := status >= http.StatusBadRequest && status < http.StatusInternalServerError; refused {
			return
		}
		audit.Write(c.Request.Context(), log, action, c.ClientIP(), status >= http.StatusInternalServerError)
	}
}
