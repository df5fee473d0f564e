package materials

import (
	"net/http"
	"strings"
	"time"

	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/httpapi"
	"github.com/supplyhub/supplyhub/internal/supplierauth"
)

type selectionBody struct {
	EstimateID *string `json:"estimate_id"`
}

func (b *selectionBody) validate() []errs.Violation {
	switch {
	case b.EstimateID == nil:
		return []errs.Violation{errs.At("/estimate_id", "is required")}
	case strings.TrimSpace(*b.EstimateID) == "":
		return []errs.Violation{errs.At("/estimate_id", "must not be blank")}
	default:
		return nil
	}
}

type selectionAnswer struct {
	Status     Status    `json:"status"`
	ID         int64     `json:"id"`
	EstimateID string    `json:"estimate_id"`
	SelectedAt time.Time `json:"selected_at"`
}

// Select handles PATCH /api/material-requests/{id}/selected-estimate.
func (s Handlers) Select(c *gin.Context) error {
	id, err := httpapi.PathInt(c, "id")
	if err != nil {
		return err
	}
	body, err := httpapi.DecodeJSON(c, (*selectionBody).validate)
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	key := requestKey{supplierauth.PrincipalFrom(ctx).SupplierID, id}
	at, err := s.selectEstimate(ctx, key, *body.EstimateID)
	if err != nil {
		return err
	}
	httpapi.JSON(c, http.StatusOK, selectionAnswer{Selected, id, *body.EstimateID, at})
	return nil
}
