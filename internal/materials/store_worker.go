package materials

import (
	"context"
	"fmt"
	"time"

	"github.com/supplyhub/supplyhub/internal/database"
	"github.com/supplyhub/supplyhub/internal/errs"
	"github.com/supplyhub/supplyhub/internal/round"
)

// due reads the requests of those rounds that still wait for their estimation, with bodies of about maxBytes at most;
// rest are those that did not fit. Bodies that cannot be decoded come with err set.
func (s *store) due(ctx context.Context, rounds []round.Round, maxBytes int) (requests []*pending, rest []round.Round,
	err error) {
	from, args, err := s.rounds(rounds, `supplier_id, id, uid, round, trace_id, trace_parent, body, status, tries`)
	if err != nil {
		return nil, nil, err
	}
	type dueRow struct {
		requestRow
		fits *string // the body, unless too many bytes come before it
	}
	rows, err := database.Query(ctx, s.db.ReaderSQL(ctx),
		fmt.Sprintf(`SELECT supplier_id, id, uid, round, trace_id, trace_parent, tries, CASE WHEN before < %d THEN body END FROM (
			SELECT r.*, sum(length(r.body)) OVER (ORDER BY r.supplier_id, r.id) - length(r.body) AS before
			FROM %s WHERE r.status = 'enqueued' AND r.uid = k.uid AND r.round = k.number) AS waiting`, maxBytes, from), args, func(r *dueRow) []any {
			return []any{&r.SupplierID, &r.ID, &r.UID, &r.Round, &r.TraceID, &r.TraceParent, &r.Tries, &r.fits}
		})
	if err != nil {
		return nil, nil, fmt.Errorf("read requests to estimate: %w", err)
	}
	for _, row := range rows {
		if row.fits == nil {
			rest = append(rest, row.roundOf())
			continue
		}
		row.Body = *row.fits
		request, err := row.request()
		if err != nil {
			request, err = Request{SupplierID: row.SupplierID, ID: row.ID, TraceID: row.TraceID}, invalid(err)
		}
		requests = append(requests, &pending{Request: request, Round: row.roundOf(), tries: row.Tries, err: err})
	}
	return requests, rest, nil
}

// exist fails unless the requests of all rounds are still there. The caller's transaction has stored the rounds'
// events: until it ends nobody else gets any of them done, and so retention takes none.
func (s *store) exist(ctx context.Context, rounds []round.Round) error {
	from, args, err := s.rounds(rounds, `supplier_id, id, uid`)
	if err != nil {
		return err
	}
	there, err := database.Query(ctx, s.db.SQL(ctx), `SELECT count(*) FROM `+from+` WHERE r.uid = k.uid`, args,
		func(n *int) []any { return []any{n} })
	if err != nil {
		return fmt.Errorf("look whether requests are still there: %w", err)
	}
	if there[0] < len(rounds) {
		return errs.Away("Requests were deleted while they were estimated.", time.Second, nil)
	}
	return nil
}

// ofRound is the condition that a statement is about this round of this request and no other.
const ofRound = `supplier_id = ? AND id = ? AND uid = ? AND round = ?`

func roundArgs(r round.Round) []any { return []any{r.SupplierID, r.RequestID, r.UID, r.Number} }

// dispatched records of rounds whose events are stored that there is nothing left to queue.
func (s *store) dispatched(ctx context.Context, rounds []round.Round) error {
	for _, r := range rounds {
		err := s.db.From(ctx).Exec(`UPDATE material_requests SET ticket = NULL, retry_at = NULL WHERE `+ofRound,
			roundArgs(r)...).Error
		if err != nil {
			return fmt.Errorf("record dispatched requests: %w", err)
		}
	}
	return nil
}

// tryAgain has the round queued again at the given time.
func (s *store) tryAgain(ctx context.Context, r round.Round, tries int64, at, now time.Time) error {
	err := s.db.From(ctx).Exec(`UPDATE material_requests SET ticket = NULL, retry_at = ?, tries = ?, updated_at = ?
		WHERE `+ofRound+` AND status = 'enqueued'`, append([]any{at.UnixMicro(), tries, now.UnixMicro()}, roundArgs(r)...)...).Error
	if err != nil {
		return fmt.Errorf("put the estimation off: %w", err)
	}
	return nil
}

// fail moves the round's request from enqueued to failed and returns its trace id; moved is false when it was not
// enqueued in this round.
func (s *store) fail(ctx context.Context, r round.Round, reason string, now time.Time) (traceID string, moved bool,
	err error) {
	return s.moveOne(ctx, `UPDATE material_requests SET status = 'failed', ticket = NULL, retry_at = NULL, failure = ?, updated_at = ?
		WHERE `+ofRound+` AND status = 'enqueued'`, append([]any{reason, now.UnixMicro()}, roundArgs(r)...)...)
}

// redelivered moves the rounds' requests from failed back to enqueued and returns them: their events are on their way again.
func (s *store) redelivered(ctx context.Context, rounds []round.Round, now time.Time) ([]requestRow, error) {
	keys := make([]requestKey, len(rounds))
	for i, r := range rounds {
		keys[i] = requestKey{r.SupplierID, r.RequestID}
	}
	if err := s.lockAll(ctx, keys); err != nil {
		return nil, err
	}
	source, args, err := s.rounds(rounds, `supplier_id, id, uid, round`)
	if err != nil {
		return nil, err
	}
	moved, err := database.Query(ctx, s.db.SQL(ctx), fmt.Sprintf(`UPDATE material_requests SET status = 'enqueued', failure = '', updated_at = %d
		FROM (SELECT r.supplier_id, r.id FROM %s WHERE r.uid = k.uid AND r.round = k.number) AS asked
		WHERE material_requests.supplier_id = asked.supplier_id AND material_requests.id = asked.id AND status = 'failed'
		RETURNING material_requests.supplier_id, material_requests.id, uid, round, trace_id`, now.UnixMicro(), source), args, func(r *requestRow) []any {
		return []any{&r.SupplierID, &r.ID, &r.UID, &r.Round, &r.TraceID}
	})
	if err != nil {
		return nil, fmt.Errorf("move material requests: %w", err)
	}
	return moved, nil
}

// lockAll holds the requests until the transaction ends, in the one order in which all batches lock.
func (s *store) lockAll(ctx context.Context, keys []requestKey) error {
	from, args, err := s.requests(keys, `supplier_id, id`, true)
	if err != nil {
		return err
	}
	_, err = database.Query(ctx, s.db.SQL(ctx), `SELECT r.supplier_id, r.id FROM `+from, args, (*requestKey).place)
	return err
}

func (s *store) moveOne(ctx context.Context, statement string, args ...any) (traceID string, moved bool, err error) {
	var rows []requestRow
	if err := s.db.From(ctx).Raw(statement+` RETURNING trace_id`, args...).Scan(&rows).Error; err != nil {
		return "", false, fmt.Errorf("move material request: %w", err)
	}
	if len(rows) == 0 {
		return "", false, nil
	}
	return rows[0].TraceID, true, nil
}
