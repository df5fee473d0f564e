package operator

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// verifiedRow is a request and what Verify asks of it.
type verifiedRow struct {
	round.Round
	status materials.Status
	sent   bool // it is enqueued and nothing is left to queue
	faults [lostFault]bool
}

func (r *verifiedRow) places() []any {
	return []any{&r.SupplierID, &r.RequestID, &r.UID, &r.Number, &r.status, &r.sent, &r.faults[0], &r.faults[1],
		&r.faults[2]}
}

// verified checks the next requests behind a key.
func (s *store) verified(ctx context.Context, after requestKey, late time.Time, limit int) ([]verifiedRow, error) {
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT supplier_id, id, uid, round, status,
			status = 'enqueued' AND ticket IS NULL AND retry_at IS NULL,
			CASE WHEN status IN ('estimated', 'selected') AND (estimates IS NULL OR unavailable IS NULL) THEN `+
		s.events.BodyOf(`material_requests.supplier_id`, `material_requests.uid`, `received`)+` IS NULL ELSE false END,
			status = 'selected' AND (selected_estimate_id IS NULL OR selected_at IS NULL),
			status = 'enqueued' AND ticket IS NOT NULL AND updated_at < $3
		FROM material_requests WHERE (supplier_id, id) > ($1, $2) ORDER BY supplier_id, id LIMIT $4`,
		[]any{after.SupplierID, after.ID, late.UnixMicro(), limit}, (*verifiedRow).places)
	if err != nil {
		return nil, fmt.Errorf("verify material requests: %w", err)
	}
	return rows, nil
}

// stillEnqueued reports whether the request waits for the estimates of the round.
func (s *store) stillEnqueued(ctx context.Context, r round.Round) (still bool, err error) {
	_, err = database.One(ctx, s.db.ReaderSQL(ctx), `SELECT EXISTS (SELECT 1 FROM material_requests
		WHERE `+materials.OfRound+` AND status = 'enqueued')`, materials.RoundArgs(r), &still)
	if err != nil {
		return false, fmt.Errorf("verify material requests: %w", err)
	}
	return still, nil
}
