package materials

import (
	"context"

	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// Page goes when the portal reads List.
func (s *Service) Page(ctx context.Context, supplierID string, status *Status, page httpapi.Page) (
	total int64, records []Record, err error) {
	filter := Filter{SupplierID: supplierID}
	if status != nil {
		filter.Status = *status
	}
	records, _, err = s.List(ctx, filter, httpapi.ListQuery{Limit: page.Size})
	return int64(len(records)), records, err
}
