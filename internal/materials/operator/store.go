package operator

import (
	"context"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/lists"
	"github.com/supplyhub/supplyhub/internal/materials"
	"github.com/supplyhub/supplyhub/internal/round"
)

// store reads and deletes what package materials keeps.
type store struct {
	db     *database.DB
	events Events // where estimates are that are not in the row
}

// roundsOf returns the newest rounds of a request, oldest first: the current one last, and so many before it.
func (s *store) roundsOf(ctx context.Context, current round.Round, before int) ([]materials.RoundOverview, error) {
	type row struct {
		materials.RoundOverview
		failure string
		began   int64
	}
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT * FROM (
			SELECT number, status, failure, created_at FROM material_rounds
			WHERE uid = $1 AND supplier_id = $2 ORDER BY number DESC LIMIT $4) AS over
		UNION ALL SELECT round, status, failure, coalesce(round_at, created_at) FROM material_requests
		WHERE supplier_id = $2 AND id = $3 AND uid = $1
		ORDER BY number`, []any{current.UID, current.SupplierID, current.RequestID, before},
		func(r *row) []any { return []any{&r.Number, &r.Status, &r.failure, &r.began} })
	return lists.Of(rows, func(r row) materials.RoundOverview {
		r.Failure, r.CreatedAt = r.Status.WhyFailed(r.failure), time.UnixMicro(r.began).UTC()
		return r.RoundOverview
	}), errs.Doing("read rounds", err)
}

// verifiedRow is a request and what Verify asks of it.
type verifiedRow struct {
	round.Round
	status materials.Status
	sent   bool // it is enqueued and has its event
	faults [lostFault]bool
}

// places returns where database.Query reads a row to.
func (r *verifiedRow) places() []any {
	return []any{&r.SupplierID, &r.RequestID, &r.UID, &r.Number, &r.status, &r.sent, &r.faults[0], &r.faults[1],
		&r.faults[2]}
}

// verified checks the next requests behind one.
func (s *store) verified(ctx context.Context, after round.Round, late time.Time, limit int) ([]verifiedRow, error) {
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx), `SELECT supplier_id, id, uid, round, status,
			status = 'enqueued' AND due_at IS NULL,
			CASE WHEN status IN ('estimated', 'selected') AND (estimates IS NULL OR unavailable IS NULL) THEN `+
		s.events.BodyOf(`material_requests.supplier_id`, `material_requests.uid`, `received`)+` IS NULL ELSE false END,
			status = 'selected' AND (selected_estimate_id IS NULL OR selected_at IS NULL),
			status = 'enqueued' AND coalesce(due_at < $3, false)
		FROM material_requests WHERE (supplier_id, id) > ($1, $2) ORDER BY supplier_id, id LIMIT $4`,
		[]any{after.SupplierID, after.RequestID, late.UnixMicro(), limit}, (*verifiedRow).places)
	return rows, errs.Doing("verify material requests", err)
}

// stillEnqueued reports whether the request waits for the estimates of the round.
func (s *store) stillEnqueued(ctx context.Context, r round.Round) (still bool, err error) {
	_, err = database.One(ctx, s.db.ReaderSQL(ctx), `SELECT EXISTS (SELECT 1 FROM material_requests
		WHERE `+materials.OfRound+` AND status = 'enqueued')`, materials.RoundArgs(r), &still)
	return still, errs.Doing("verify material requests", err)
}
