package materials

import (
	"context"
	"slices"
	"time"

	"github.com/supplyhub/supplyhub/internal/httpapi"
)

// Page returns one page of a supplier's requests, newest first, and how many there are; a nil status means any.
func (s *Service) Page(ctx context.Context, supplierID string, status *Status, page httpapi.Page) (total int64,
	records []Record, err error) {
	l, err := s.store.list(ctx, supplierID, status, page.Size, page.Offset())
	if err != nil {
		return 0, nil, err
	}
	for part, err := range l.records(ctx) {
		if err != nil {
			return 0, nil, err
		}
		records = slices.Concat(records, part)
	}
	return l.total, records, nil
}

// Find returns one request of the supplier. Errors: errs.NotFound.
func (s *Service) Find(ctx context.Context, supplierID string, id int64) (Record, error) {
	return s.store.find(ctx, supplierID, id)
}

// Choose chooses an estimate, as PATCH selected-estimate does. Errors: errs.NotFound, errs.Conflict,
// errs.Unprocessable.
func (s *Service) Choose(ctx context.Context, supplierID string, id int64, estimateID string) (time.Time, error) {
	return s.selectEstimate(ctx, requestKey{supplierID, id}, estimateID)
}

// Estimate asks for fresh estimates, as POST re-estimate does. Errors: errs.NotFound, errs.Conflict.
func (s *Service) Estimate(ctx context.Context, supplierID string, id int64) error {
	return s.reestimate(ctx, requestKey{supplierID, id})
}
