package products

import (
	"github.com/gin-gonic/gin"

	"github.com/supplyhub/supplyhub/internal/caller"
	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// Handlers answer the package's route. They are apart from Service because the linker keeps all exported methods of
// what reflection may reach: a worker, which has no routes, would link gin.
type Handlers struct{ *Service }

// syncAnswer is what became of the product of a sync.
type syncAnswer struct {
	SKU    string `json:"sku"`
	Status Status `json:"status"`
}

// Sync handles POST /api/products/sync.
func (s Handlers) Sync(c *gin.Context) error {
	body, err := httpapi.DecodeJSON(c, (*syncBody).validate)
	if err != nil {
		return err
	}
	ctx := c.Request.Context()
	status, err := s.apply(ctx, caller.From(ctx).SupplierID, body.change())
	return httpapi.Answer(c, syncAnswer{*body.Product.SKU, status}, err)
}
