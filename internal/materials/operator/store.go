package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// byAge is the condition of the index in which a supplier's requests of a status are in the order in which they came.
const (
	byAge       = `created_at > 0`
	newestFirst = `created_at DESC, supplier_id, id DESC`
	anyStatus   = `IN ('enqueued', 'estimated', 'selected', 'failed')`
)

// ofEach joins a SELECT for each status, given the condition on it: each is read in the order of the index.
func ofEach(query func(condition string) string) string { return ofThose(materials.Statuses[:], query) }

func ofThose(statuses []materials.Status, query func(condition string) string) string {
	return database.Arms(statuses, func(status materials.Status) string {
		return query(`= '` + string(status) + `'`)
	})
}

// requestKey names one request: ids are the supplier's own.
type requestKey struct {
	SupplierID string
	ID         int64
}

type store struct {
	db     *database.DB
	events Events // where estimates are that are not in the row
}

type overviewRow struct {
	SupplierID string
	ID         int64
	Status     materials.Status
	ShopCode   string
	Round      int64
	Failure    string
	CreatedAt  int64
	UpdatedAt  int64
}

func (r overviewRow) overview() materials.Overview {
	return materials.Overview{
		SupplierID: r.SupplierID, ID: r.ID, Status: r.Status, ShopCode: r.ShopCode, Round: r.Round,
		Failure:   whyFailed(r.Status, r.Failure),
		CreatedAt: instant(r.CreatedAt), UpdatedAt: instant(r.UpdatedAt),
	}
}

func whyFailed(status materials.Status, failure string) *string {
	if status != materials.Failed {
		return nil
	}
	return &failure
}

// roundsOf returns the rounds of a request, oldest first, the current one last.
func (s *store) roundsOf(ctx context.Context, current round.Round) ([]materials.RoundOverview, error) {
	var rows []struct {
		Number    int64
		Status    materials.Status
		Failure   string
		CreatedAt int64
	}
	err := s.db.Reader(ctx).Raw(`SELECT number, status, failure, created_at FROM material_rounds WHERE uid = ?
		UNION ALL SELECT round, status, failure, coalesce(round_at, created_at) FROM material_requests
		WHERE supplier_id = ? AND id = ? AND uid = ?
		ORDER BY number`, current.UID, current.SupplierID, current.RequestID, current.UID).Scan(&rows).Error
	if err != nil {
		return nil, fmt.Errorf("read rounds: %w", err)
	}
	rounds := make([]materials.RoundOverview, len(rows))
	for i, row := range rows {
		rounds[i] = materials.RoundOverview{Number: row.Number, Status: row.Status,
			Failure:   whyFailed(row.Status, row.Failure),
			CreatedAt: instant(row.CreatedAt)}
	}
	return rounds, nil
}

func instant(micros int64) time.Time { return time.UnixMicro(micros).UTC() }
