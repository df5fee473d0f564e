package work

import (
	"context"

	"github.com/supplyhub/supplyhub/internal/materials"
)

// requeueSpread is requeueBy where the requests are on several servers, which cannot be locked together: it looks
// without locks, and takes those, one by one, that no other process has taken since.
func (s *store) requeueSpread(ctx context.Context, choose, column string, bound int64, limit int) (
	[]materials.Queued, error) {
	var keys, taken []ticketRow
	err := s.db.From(ctx).Raw(choose, bound, limit).Scan(&keys).Error
	for _, key := range keys {
		var ticket int64
		if err == nil {
			ticket, err = s.db.Numbers(ctx, 1)
		}
		var one []ticketRow
		if err == nil {
			err = s.db.From(ctx).Raw(`UPDATE material_requests SET ticket = ?, retry_at = NULL
				WHERE supplier_id = ? AND id = ? AND `+column+` < ? RETURNING supplier_id, id, uid, round, ticket`,
				ticket, key.SupplierID, key.ID, bound).Scan(&one).Error
		}
		if err != nil {
			return nil, err
		}
		taken = append(taken, one...)
	}
	return queuedRows(taken), err
}
