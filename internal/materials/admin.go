package materials

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/round"
)

// Overview is a request in an operator's list.
type Overview struct {
	SupplierID string    `json:"supplier_id"`
	ID         int64     `json:"id"`
	Status     Status    `json:"status"`
	ShopCode   string    `json:"shop_code"`
	Round      int64     `json:"round"`
	Failure    *string   `json:"failure"` // nil unless it is failed
	CreatedAt  time.Time `json:"created_at"`
	UpdatedAt  time.Time `json:"updated_at"`
}

// RoundOverview is one round of a request.
type RoundOverview struct {
	Number    int64     `json:"number"`
	Status    Status    `json:"status"`  // as it is, or how the round ended
	Failure   *string   `json:"failure"` // nil unless it is failed
	CreatedAt time.Time `json:"created_at"`
}

// Filter chooses requests; a zero field chooses all.
type Filter struct {
	SupplierID string
	Status     Status
}

// failedPage is how many failed requests one statement of Each returns.
const failedPage = 1000

// Each hands the requests that the filter chooses to fn, newest first, at most limit of them; 0: all, in constant
// memory and by short statements. It ends with fn's error.
func (s *Service) Each(ctx context.Context, filter Filter, limit int, fn func(Overview) error) error {
	if filter.Status != Failed {
		return s.store.each(ctx, filter, limit, fn)
	}
	handed := 0
	for after := ""; ; {
		page, next, err := s.Recent(ctx, filter, after, failedPage)
		if err != nil {
			return err
		}
		for _, o := range page {
			if err := fn(o); err != nil {
				return err
			}
			if handed++; handed == limit {
				return nil
			}
		}
		if after = next; next == "" {
			return nil
		}
	}
}

// Show returns a request with all its rounds, oldest first, and the round that it is in. errs.NotFound: there is none.
func (s *Service) Show(ctx context.Context, supplierID string, requestID int64) (Record, []RoundOverview, round.Round,
	error) {
	record, err := s.store.find(ctx, supplierID, requestID)
	if err != nil {
		return record, nil, round.Round{}, err
	}
	current := round.Round{SupplierID: supplierID, RequestID: requestID, UID: record.UID, Number: record.Round}
	rounds, err := s.store.roundsOf(ctx, current)
	return record, rounds, current, err
}
