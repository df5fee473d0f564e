package materials

import (
	"net/http"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

// Reestimate handles POST /api/material-requests/{id}/re-estimate. It has no body.
func (s Handlers) Reestimate(c *gin.Context) error {
	id, err := httpapi.PathInt(c, "id")
	if err != nil {
		return err
	}
	if _, err := httpapi.Query(c); err != nil {
		return err
	}
	ctx := c.Request.Context()
	if err := s.reestimate(ctx, requestKey{supplierauth.PrincipalFrom(ctx).SupplierID, id}); err != nil {
		return err
	}
	httpapi.JSON(c, http.StatusAccepted, enqueuedAnswer{Enqueued, id})
	return nil
}
