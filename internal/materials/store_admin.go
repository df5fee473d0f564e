package materials

import (
	"context"
	"fmt"

	"github.com/supplyhub/supplyhub/internal/round"
)

type overviewRow struct {
	SupplierID string
	ID         int64
	Status     Status
	ShopCode   string
	Round      int64
	Failure    string
	CreatedAt  int64
	UpdatedAt  int64
}

func (r overviewRow) overview() Overview {
	return Overview{
		SupplierID: r.SupplierID, ID: r.ID, Status: r.Status, ShopCode: r.ShopCode, Round: r.Round, Failure: whyFailed(r.Status, r.Failure),
		CreatedAt: instant(r.CreatedAt), UpdatedAt: instant(r.UpdatedAt),
	}
}

func whyFailed(status Status, failure string) *string {
	if status != Failed {
		return nil
	}
	return &failure
}

// roundsOf are the rounds of a request, oldest first, the current one last.
func (s *store) roundsOf(ctx context.Context, current round.Round) ([]RoundOverview, error) {
	var rows []struct {
		Number    int64
		Status    Status
		Failure   string
		CreatedAt int64
	}
	err := s.db.Reader(ctx).Raw(`SELECT number, status, failure, created_at FROM material_rounds WHERE uid = ?
		UNION ALL SELECT round, status, failure, coalesce(round_at, created_at) FROM material_requests WHERE supplier_id = ? AND id = ? AND uid = ?
		ORDER BY number`, current.UID, current.SupplierID, current.RequestID, current.UID).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read rounds: %w", err)
	}
	rounds := make([]RoundOverview, len(rows))
	for i, row := range rows {
		rounds[i] = RoundOverview{Number: row.Number, Status: row.Status, Failure: whyFailed(row.Status, row.Failure),
			CreatedAt: instant(row.CreatedAt)}
	}
	return rounds, nil
}
